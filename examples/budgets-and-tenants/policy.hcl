# Hard caps: the worst case of a call is reserved before the call, so that no tenant
# ever spends more than its cap, however many steps run at once.

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

budget {
  step_usd   = 0.02
  tenant_usd = 0.03
  at_cap     = "fail"

  tenant "gold" {
    usd = 1
  }
}
