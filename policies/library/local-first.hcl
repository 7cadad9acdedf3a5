# A model on this machine answers first and costs nothing. It judges its own answer,
# for nothing too; a cloud model is asked when that fails and is worth its price.

model "local" {
  provider = "ollama"
  served   = "qwen2.5:7b"
  base_url = "http://127.0.0.1:11434"
  price {
    free = true
  }
  context_tokens    = 32768
  max_output_tokens = 4096
  capabilities      = ["tools", "json_mode"]
  quality {
    mean = 0.5
  }
}

model "cloud" {
  provider = "openai"
  served   = "gpt-4.1"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean = 0.75
  }
}

verifier "own-judgement" {
  plugin = "verifier-judge"
  models = ["local"]
  config {
    model      = "local"
    confidence = 0.7 # a small model is a lenient judge of itself
  }
}

strategy "cascade_route" {
  worth_usd = 0.05 # what a right answer is worth
}

retry {
  break_after = 3 # a machine that is off should not be asked at every step
  break_for   = "1m"
}
