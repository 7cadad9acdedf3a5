# The examples of the reference. Each is loaded by a test beside a model and a
# strategy that it does not define itself.

#: model
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
  base_url = "https://api.openai.com/v1"
  api_key  = env("OPENAI_API_KEY")
  timeout  = "30s"
}

#: model price
model "ours" {
  provider = "openai"
  base_url = "http://models.internal/v1"
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
  max_output_tokens = 4096
}

#: model quality
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
  quality {
    mean    = 0.55
    std_dev = 0.3
  }
}

#: model deployment
model "small" {
  provider = "openai"
  served   = "gpt-4o-mini"
  api_key  = env("OPENAI_API_KEY")
  deployment "second-region" {
    base_url = "https://eu.example.com/v1"
    api_key  = env("EU_API_KEY")
  }
}

#: model arm
model "large" {
  provider = "openai"
  served   = "gpt-5"
  api_key  = env("OPENAI_API_KEY")
  arm "low" {
    reasoning_effort = "low"
  }
  arm "high" {
    reasoning_effort       = "high"
    expected_output_tokens = 4000
  }
}

#: catalog
catalog "openai/house-model" {
  as_of             = "2026-01-15"
  source            = "https://wiki.example.com/contract"
  context_tokens    = 32768
  max_output_tokens = 4096
  capabilities      = ["tools", "json_mode"]
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
}

#: plugin
plugin "verifier-tests" {
  env          = ["PATH", "HOME", "GOCACHE"]
  isolation    = "sandbox"
  memory       = "2GiB"
  call_timeout = "5m"
}

verifier "tests" {
  plugin = "verifier-tests"
}

#: estimator
estimator "confidence" {
  plugin         = "estimator-logprob"
  on_unavailable = "abstain"
  timeout        = "500ms"
}

#: estimator when
estimator "confidence" {
  plugin = "estimator-logprob"
  when {
    groups = ["classify/*"]
    labels = { language = "en" }
  }
}

#: estimator config
estimator "confidence" {
  plugin = "estimator-logprob"
  config {
    classifier = "classifier.json"
  }
}

#: verifier
verifier "tests" {
  plugin = "verifier-tests"
  config {
    command = ["go", "test", "-json", "./..."]
    timeout = "20s"
  }
  when {
    checks = true
  }
  on_unavailable = "abstain"
}

#: strategy
strategy "cascade_route" {
  worth_usd = 0.05 # what a right answer is worth
  max_depth = 3
}

#: match
match "code" {
  when {
    groups = ["code/*"]
    tools  = ["edit", "shell"]
  }
  strategy "index" {
    lambda = 2
  }
}

#: budget
budget {
  expected_usd_per_query = 0.01
  step_usd               = 0.5
  run_usd                = 5
  tenant_usd             = 100
  tenant_period          = "24h"
  at_cap                 = "best"
  ledger                 = "spending.sqlite"
}

#: budget tenant
budget {
  tenant_usd = 100
  tenant "trial" {
    usd = 1
  }
}

#: fit
strategy "cascade_route" {
  max_depth = 3 # lambda, gamma and scale are in the profile
}

fit {
  profile = "profile.json"
}

#: stream
stream {
  mode          = "commit"
  cancel_drafts = true
}

#: session
session {
  cache_aware  = true
  switch_usd   = 0.001
  idle_timeout = "30m"
}

#: trajectory
trajectory {
  unit          = "attempt"
  show_failures = true
}

#: retry
retry {
  max_attempts = 3
  base_delay   = "250ms"
  max_delay    = "8s"
  break_after  = 5
  break_for    = "1m"
}

#: shadow
mode     = "shadow"
baseline = "small"

shadow {
  share   = 0.05
  max_usd = 5
}

#: holdout
baseline = "small"

holdout {
  share    = 0.05
  fallback = true
}

#: trace
trace {
  file     = "traces.jsonl"
  max_size = "256MiB"
  prompts  = true
}

#: retention
retention {
  traces   = "720h" # 30 days
  accounts = "2160h"
}
