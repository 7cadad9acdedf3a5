# A small model first, a large one while it is worth its price.

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

# A dollar must buy 100 units of quality: a cent is worth a certain answer.
strategy "cascade_route" {
  lambda = 100
}
