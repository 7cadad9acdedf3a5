# Facts about models that can be asked: prices in US dollars per million tokens,
# limits in tokens. Prices change: each entry says when it was right and where it
# is from. A policy changes an entry, or adds one, by a catalog block of its own.

catalog "openai/gpt-4o" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 128000
  max_output_tokens = 16384
  capabilities      = ["tools", "images", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million        = 2.5
    cached_input_usd_per_million = 1.25
    output_usd_per_million       = 10
  }
}

catalog "openai/gpt-4o-mini" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 128000
  max_output_tokens = 16384
  capabilities      = ["tools", "images", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million        = 0.15
    cached_input_usd_per_million = 0.075
    output_usd_per_million       = 0.6
  }
}
