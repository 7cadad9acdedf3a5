# An estimator of your own, as a program of its own. Its config is checked against
# what the program says it takes.

plugin "estimator-hedge" {
  path = "bin/estimator-hedge"
}

estimator "hedge" {
  plugin = "estimator-hedge"
  config {
    words   = ["maybe", "perhaps", "probably"]
    penalty = 0.4
  }
}

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
  worth_usd = 0.02 # what a right answer is worth
}
