# A model on this machine answers first and costs nothing; a cloud model is asked
# when that seems worth its price.

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
    mean    = 0.5
    std_dev = 0.3
  }
}

model "cloud" {
  provider = "openai"
  served   = "gpt-4.1"
  api_key  = env("OPENAI_API_KEY")
  quality {
    mean    = 0.75
    std_dev = 0.2
  }
}

strategy "cascade_route" {
  lambda = 20
}

retry {
  break_after = 3 # a machine that is off should not be asked at every step
  break_for   = "1m"
}
