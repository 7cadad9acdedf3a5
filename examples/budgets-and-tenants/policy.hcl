# Hard caps: the worst case of a call is reserved before the call, so that no tenant
# ever spends more than its cap, however many steps run at once.

model "gpt-4o-mini" {
  provider          = "openai"
  api_key           = env("OPENAI_API_KEY")
  max_output_tokens = 1000
  quality {
    mean = 0.7
  }
}

model "gpt-4o" {
  provider          = "openai"
  api_key           = env("OPENAI_API_KEY")
  max_output_tokens = 1000 # by default 16,384, whose worst case step_usd would never allow
  quality {
    mean = 0.9
  }
}

# Nothing looks at the answers, apart from the free checks: one model is asked.
strategy "route" {
  worth_usd = 0.01 # what a right answer is worth
}

budget {
  step_usd   = 0.02
  tenant_usd = 0.03
  at_cap     = "fail"

  tenant "gold" {
    usd = 1
  }
}
