# An agent's steps: malformed tool calls and unparsable thoughts are caught by the
# built-in checks, for nothing, and only then the large model is asked.

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

# A run of the agent never spends more than a dollar. The worst case of each call is
# reserved first, so a cap must leave room for the longest answer of the dearest model.
budget {
  run_usd = 1
}
