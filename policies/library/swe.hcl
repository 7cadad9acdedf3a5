# Code repair where the unit tests decide: models try from cheap to dear until a
# patch passes, as long as a further try is worth its price.

include = ["library:tiers"]

model "large" {
  served = "gpt-5"
  quality {
    mean = 0.7
  }
}

verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["go", "test", "-json", "./..."]
    timeout = "2m"
  }
  timeout        = "10m"
  on_unavailable = "abstain"
  when {
    checks = true # only where there are tests
  }
}

strategy "cascade_route" {
  worth_usd = 2 # what a solved task is worth
}

budget {
  step_usd = 2
  run_usd  = 10
}
