# The first week in production: call the model that the application has always
# called, and record what would have been done instead.

mode     = "observe"
baseline = "gpt-4o"

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.7
    std_dev = 0.3
  }
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.9
    std_dev = 0.1
  }
}

strategy "cascade_route" {
  worth_usd = 0.01 # what a right answer is worth
}

trace {
  file    = "traces.jsonl"
  explain = true
}
