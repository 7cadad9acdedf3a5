# commit streams an answer live from the moment at which nothing it could say would
# make another model worth its price. A rejected draft is never shown.

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
  lambda = 100
}

stream {
  mode = "commit"
}
