# Classification: short answers whose log-probabilities say how sure a model is.
# The cheapest answers first; the next one is asked when the estimate is low.

model "nano" {
  provider               = "openai"
  served                 = "gpt-4.1-nano"
  api_key                = env("OPENAI_API_KEY")
  expected_output_tokens = 5
  max_output_tokens      = 64
}

model "mini" {
  provider               = "openai"
  served                 = "gpt-4.1-mini"
  api_key                = env("OPENAI_API_KEY")
  expected_output_tokens = 5
  max_output_tokens      = 64
}

model "large" {
  provider               = "openai"
  served                 = "gpt-4.1"
  api_key                = env("OPENAI_API_KEY")
  expected_output_tokens = 5
  max_output_tokens      = 64
}

estimator "confidence" {
  plugin = "estimator-logprob"
  config {
    classifier = "classifier.json" # stepfall fit --classifier writes it
  }
}

strategy "threshold" {
  order     = ["nano", "mini", "large"]
  threshold = [0.9, 0.8]
}
