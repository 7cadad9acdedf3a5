# Two models of one provider, from cheap to dear: the small one answers what it
# can, the large one what is worth its price.

model "small" {
  provider = "openai"
  served   = "gpt-4.1-mini"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.6
    std_dev = 0.25
  }
}

model "large" {
  provider = "openai"
  served   = "gpt-4.1"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.75
    std_dev = 0.2
  }
}

strategy "cascade_route" {
  lambda = 20 # a dollar is worth 20 right answers: five cents for one
}
