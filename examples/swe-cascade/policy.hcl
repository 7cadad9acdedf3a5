# The tests decide: a cheap model's patch is good enough when they pass.

verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["go", "test", "./..."]
    timeout = "30s"
  }
  on_unavailable = "fail"
  when {
    checks = true
  }
}

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.5
    std_dev = 0.3
  }
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.8
    std_dev = 0.2
  }
}

strategy "cascade_route" {
  worth_usd = 1 # what a mended repository is worth
}
