# A verifier of your own in any language: a script that reads the query and the
# answer as JSON and writes its verdict as JSON.

verifier "recipe" {
  plugin = "verifier-command"
  config {
    command = ["python3", "-c", file("check.py")]
    timeout = "10s"
  }
  on_unavailable = "fail"
}

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
  worth_usd = 0.02 # what a right answer is worth
}
