# The policy that uses what was fitted: the profile brings the estimates and the
# price of cost (lambda) that meets the budget.

fit {
  profile = "profile.json"
}

model "gpt-4o-mini" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
}

model "gpt-4o" {
  provider = "openai"
  api_key  = env("OPENAI_API_KEY")
}

# The check that judged the recorded answers judges in use, too.
verifier "check" {
  plugin = "verifier-command"
  config {
    command = ["./check.py"]
  }
}

strategy "index" {}
