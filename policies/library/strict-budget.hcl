# Hard caps for every step, run and tenant, kept over restarts. At a cap the best
# answer so far is returned, and nothing is called that might exceed one.

include = ["library:tiers"]

model "small" {
  max_output_tokens = 4096
}

model "large" {
  max_output_tokens = 4096
}

budget {
  expected_usd_per_query = 0.005
  step_usd               = 0.05
  run_usd                = 1
  tenant_usd             = 50
  tenant_period          = "720h"
  at_cap                 = "best"
  ledger                 = "spending.sqlite"
}

retry {
  max_attempts = 2
}
