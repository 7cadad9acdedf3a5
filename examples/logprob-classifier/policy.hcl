# Log-probabilities decide: the plugin turns the token probabilities of an answer
# into the probability that it is right, by a classifier trained on recorded answers.

estimator "confidence" {
  plugin = "estimator-logprob"
  config {
    classifier = file("classifier.json")
    classes    = ["positive", "negative"]
  }
}

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.8
    std_dev = 0.2
  }
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.95
    std_dev = 0.05
  }
}

strategy "cascade_route" {
  worth_usd = 0.05 # what a right answer is worth
}
