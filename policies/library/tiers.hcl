# Two models of one provider, from cheap to dear.

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.6
    std_dev = 0.25
  }
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.75
    std_dev = 0.2
  }
}

strategy "cascade_route" {
  lambda = 20
}
