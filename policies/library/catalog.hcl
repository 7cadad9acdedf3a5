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

catalog "openai/gpt-4.1" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 1047576
  max_output_tokens = 32768
  capabilities      = ["tools", "images", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million        = 2
    cached_input_usd_per_million = 0.5
    output_usd_per_million       = 8
  }
}

catalog "openai/gpt-4.1-mini" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 1047576
  max_output_tokens = 32768
  capabilities      = ["tools", "images", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million        = 0.4
    cached_input_usd_per_million = 0.1
    output_usd_per_million       = 1.6
  }
}

catalog "openai/gpt-4.1-nano" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 1047576
  max_output_tokens = 32768
  capabilities      = ["tools", "images", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million        = 0.1
    cached_input_usd_per_million = 0.025
    output_usd_per_million       = 0.4
  }
}

catalog "openai/gpt-5" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 400000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1.25
    cached_input_usd_per_million = 0.125
    output_usd_per_million       = 10
  }
}

catalog "openai/gpt-5-mini" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 400000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.25
    cached_input_usd_per_million = 0.025
    output_usd_per_million       = 2
  }
}

catalog "openai/gpt-5-nano" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 400000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.05
    cached_input_usd_per_million = 0.005
    output_usd_per_million       = 0.4
  }
}

catalog "openai/o4-mini" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 200000
  max_output_tokens = 100000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1.1
    cached_input_usd_per_million = 0.275
    output_usd_per_million       = 4.4
  }
}

catalog "anthropic/claude-3-5-haiku-latest" {
  as_of             = "2025-08-07"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 8192
  capabilities      = ["tools", "images"]
  price {
    input_usd_per_million        = 0.8
    cached_input_usd_per_million = 0.08
    cache_write_usd_per_million  = 1
    output_usd_per_million       = 4
  }
}

catalog "anthropic/claude-haiku-4-5" {
  as_of             = "2025-10-15"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "reasoning"]
  price {
    input_usd_per_million        = 1
    cached_input_usd_per_million = 0.1
    cache_write_usd_per_million  = 1.25
    output_usd_per_million       = 5
  }
}

catalog "anthropic/claude-sonnet-4-5" {
  as_of             = "2025-10-15"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "reasoning"]
  price {
    input_usd_per_million        = 3
    cached_input_usd_per_million = 0.3
    cache_write_usd_per_million  = 3.75
    output_usd_per_million       = 15
  }
}

catalog "anthropic/claude-opus-4-1" {
  as_of             = "2025-08-07"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 32000
  capabilities      = ["tools", "images", "reasoning"]
  price {
    input_usd_per_million        = 15
    cached_input_usd_per_million = 1.5
    cache_write_usd_per_million  = 18.75
    output_usd_per_million       = 75
  }
}

catalog "mistral/mistral-small-latest" {
  as_of          = "2025-08-07"
  source         = "https://mistral.ai/pricing"
  context_tokens = 128000
  capabilities   = ["tools", "images", "json_mode"]
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.3
  }
}

catalog "mistral/mistral-medium-latest" {
  as_of          = "2025-08-07"
  source         = "https://mistral.ai/pricing"
  context_tokens = 128000
  capabilities   = ["tools", "images", "json_mode"]
  price {
    input_usd_per_million  = 0.4
    output_usd_per_million = 2
  }
}

catalog "mistral/mistral-large-latest" {
  as_of          = "2025-08-07"
  source         = "https://mistral.ai/pricing"
  context_tokens = 128000
  capabilities   = ["tools", "json_mode"]
  price {
    input_usd_per_million  = 2
    output_usd_per_million = 6
  }
}

# Embeddings. OpenAI's own page could not be read when these were entered: the source is
# another's record of it, and its day is not known better than the year.

catalog "openai/text-embedding-3-small" {
  as_of          = "2026-01-01"
  source         = "https://github.com/iyulab/TokenMeter/releases/tag/v0.12.0"
  context_tokens = 8192
  capabilities   = ["embeddings"]
  price {
    input_usd_per_million = 0.02
  }
}

catalog "openai/text-embedding-3-large" {
  as_of          = "2026-01-01"
  source         = "https://github.com/iyulab/TokenMeter/releases/tag/v0.12.0"
  context_tokens = 8192
  capabilities   = ["embeddings"]
  price {
    input_usd_per_million = 0.13
  }
}
