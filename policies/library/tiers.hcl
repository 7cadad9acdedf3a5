# Two models of one provider. Nothing here looks at the answers, so that each query
# goes to one of them, by what a right answer is worth; what the free checks reject
# goes to the other. A judge makes it a cascade: small first, large where that failed.

model "small" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean = 0.6
  }
}

model "large" {
  provider = "openai"
  served   = "gpt-4.1"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean = 0.75
  }
}

strategy "route" {
  worth_usd = 0.05 # of a right answer: beyond that, the small one has to do
}
