# A small model first, a large one while it is worth its price.

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean = 0.7
  }
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean = 0.9
  }
}

# Nothing looks at the answers, apart from the free checks: one model is asked.
strategy "route" {
  worth_usd = 0.01 # what a right answer is worth
}
