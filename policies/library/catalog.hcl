# Facts about models that can be asked: prices in US dollars per million tokens,
# limits in tokens. Prices change: each entry says when it was right and where it
# is from. A policy changes an entry, or adds one, by a catalog block of its own.
# Faster tiers: https://openai.com/api-fast-mode/, https://platform.claude.com/docs/en/build-with-claude/fast-mode,
# and at most twice the price at Google, https://ai.google.dev/gemini-api/docs/pricing.
# Slower tiers, flex, at the half: https://platform.openai.com/docs/guides/flex-processing, https://ai.google.dev/gemini-api/docs/optimization.
# Web searches, which are younger than some entries: OpenAI's as of 2026-03-12, https://www.modelcostwatch.com/openai/tool-costs/web-search
# (0.025 with web_search_preview for models without reasoning); Anthropic's as of
# 2026-05-22, https://platform.claude.com/docs/en/about-claude/pricing; Gemini 3's as of 2026, from
# https://github.com/iyulab/TokenMeter/releases/tag/v0.13.0. Gemini 2.5 charges the default of 0.035, once for a prompt.

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
    fast_factor                  = 1.7
    search_usd                   = 0.01
    preview_search_usd           = 0.025
  }
}

catalog "openai/gpt-4o-2024-05-13" {
  as_of             = "2025-08-07"
  source            = "https://platform.openai.com/docs/pricing"
  context_tokens    = 128000
  max_output_tokens = 4096
  capabilities      = ["tools", "images", "json_mode", "log_probs"]
  price {
    input_usd_per_million  = 5
    output_usd_per_million = 15
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
    fast_factor                  = 1.67
    search_usd                   = 0.01
    preview_search_usd           = 0.025
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
    fast_factor                  = 1.75
    search_usd                   = 0.01
    preview_search_usd           = 0.025
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
    fast_factor                  = 1.75
    search_usd                   = 0.01
    preview_search_usd           = 0.025
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
    fast_factor                  = 2
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
    fast_factor                  = 2
    flex_factor                  = 0.5
    search_usd                   = 0.01
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
    fast_factor                  = 1.8
    flex_factor                  = 0.5
    search_usd                   = 0.01
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
    flex_factor                  = 0.5
    search_usd                   = 0.01
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
    fast_factor                  = 1.82
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "openai/o3" {
  as_of             = "2026-04-06"
  source            = "https://www.calcis.dev/models/o3"
  context_tokens    = 200000
  max_output_tokens = 100000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 2
    cached_input_usd_per_million = 0.5
    output_usd_per_million       = 8
    fast_factor                  = 1.75
    flex_factor                  = 0.5
    search_usd                   = 0.01
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
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-haiku-4-5" {
  as_of             = "2025-10-15"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1
    cached_input_usd_per_million = 0.1
    cache_write_usd_per_million  = 1.25
    output_usd_per_million       = 5
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-sonnet-4-5" {
  as_of             = "2025-10-15"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 3
    cached_input_usd_per_million = 0.3
    cache_write_usd_per_million  = 3.75
    output_usd_per_million       = 15
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-opus-4-1" {
  as_of             = "2025-08-07"
  source            = "https://docs.anthropic.com/en/docs/about-claude/pricing"
  context_tokens    = 200000
  max_output_tokens = 32000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 15
    cached_input_usd_per_million = 1.5
    cache_write_usd_per_million  = 18.75
    output_usd_per_million       = 75
    search_usd                   = 0.01
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

# Models of 2026. The providers' own pages could not be read when these were entered: each
# source is another's record of them on that day, and was compared with a second one
# (LiteLLM's price map of 2026-07-24; for Gemini morphllm.com/gemini-api-pricing). Cache writes
# of Anthropic are those for five minutes. Reasoning is billed as output by all of them.
# Batch requests, at half the price, are not made by stepfall.

catalog "openai/gpt-5.1" {
  as_of             = "2026-04-13"
  source            = "https://benchlm.ai/blog/posts/openai-api-pricing"
  context_tokens    = 400000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1.25
    cached_input_usd_per_million = 0.125
    output_usd_per_million       = 10
    fast_factor                  = 2
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "openai/gpt-5.2" {
  as_of             = "2026-04-13"
  source            = "https://benchlm.ai/blog/posts/openai-api-pricing"
  context_tokens    = 400000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1.75
    cached_input_usd_per_million = 0.175
    output_usd_per_million       = 14
    fast_factor                  = 2
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

# Longer prompts cost more, so that the context ends where this price does.
catalog "openai/gpt-5.4" {
  as_of             = "2026-04-13"
  source            = "https://benchlm.ai/blog/posts/openai-api-pricing"
  context_tokens    = 270000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 2.5
    cached_input_usd_per_million = 0.25
    output_usd_per_million       = 15
    fast_factor                  = 2
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "openai/gpt-5.4-mini" {
  as_of             = "2026-04-13"
  source            = "https://benchlm.ai/blog/posts/openai-api-pricing"
  context_tokens    = 270000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.75
    cached_input_usd_per_million = 0.075
    output_usd_per_million       = 4.5
    fast_factor                  = 2
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "openai/gpt-5.4-nano" {
  as_of             = "2026-04-13"
  source            = "https://benchlm.ai/blog/posts/openai-api-pricing"
  context_tokens    = 270000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.2
    cached_input_usd_per_million = 0.02
    output_usd_per_million       = 1.25
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "openai/gpt-5.5" {
  as_of             = "2026-04-30"
  source            = "https://tokenmix.ai/blog/gpt-5-api-pricing"
  context_tokens    = 270000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 5
    cached_input_usd_per_million = 0.5
    output_usd_per_million       = 30
    fast_factor                  = 2.5
    flex_factor                  = 0.5
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-opus-4-5" {
  as_of             = "2026-03-21"
  source            = "https://deploybase.ai/articles/claude-api-pricing"
  context_tokens    = 200000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 5
    cached_input_usd_per_million = 0.5
    cache_write_usd_per_million  = 6.25
    output_usd_per_million       = 25
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-opus-4-6" {
  as_of             = "2026-03-21"
  source            = "https://deploybase.ai/articles/claude-api-pricing"
  context_tokens    = 1000000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 5
    cached_input_usd_per_million = 0.5
    cache_write_usd_per_million  = 6.25
    output_usd_per_million       = 25
    fast_factor                  = 6
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-sonnet-4-6" {
  as_of             = "2026-03-21"
  source            = "https://deploybase.ai/articles/claude-api-pricing"
  context_tokens    = 1000000
  max_output_tokens = 64000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 3
    cached_input_usd_per_million = 0.3
    cache_write_usd_per_million  = 3.75
    output_usd_per_million       = 15
    search_usd                   = 0.01
  }
}

catalog "anthropic/claude-opus-4-8" {
  as_of             = "2026-06-01"
  source            = "https://github.com/mandark-droid/genai_otel_instrument/releases/tag/v1.3.2"
  context_tokens    = 1000000
  max_output_tokens = 128000
  capabilities      = ["tools", "images", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 5
    cached_input_usd_per_million = 0.5
    cache_write_usd_per_million  = 6.25
    output_usd_per_million       = 25
    fast_factor                  = 2
    search_usd                   = 0.01
  }
}

# Longer prompts cost twice as much, so that the context ends where this price does.
catalog "gemini/gemini-2.5-pro" {
  as_of             = "2026-03-01"
  source            = "https://deploybase.ai/articles/gemini-api-pricing"
  context_tokens    = 200000
  max_output_tokens = 65536
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 1.25
    cached_input_usd_per_million = 0.125
    output_usd_per_million       = 10
    fast_factor                  = 2
    flex_factor                  = 0.5
  }
}

catalog "gemini/gemini-2.5-flash" {
  as_of             = "2026-03-01"
  source            = "https://deploybase.ai/articles/gemini-api-pricing"
  context_tokens    = 1048576
  max_output_tokens = 65536
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.3
    cached_input_usd_per_million = 0.03
    audio_input_usd_per_million  = 1
    output_usd_per_million       = 2.5
    fast_factor                  = 2
    flex_factor                  = 0.5
  }
}

catalog "gemini/gemini-2.5-flash-lite" {
  as_of             = "2026-05-15"
  source            = "https://findskill.ai/blog/gemini-api-pricing-guide/"
  context_tokens    = 1048576
  max_output_tokens = 65536
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million        = 0.1
    cached_input_usd_per_million = 0.01
    audio_input_usd_per_million  = 0.3
    output_usd_per_million       = 0.4
    fast_factor                  = 2
    flex_factor                  = 0.5
  }
}

catalog "gemini/gemini-3.5-flash" {
  as_of             = "2026-06-01"
  source            = "https://github.com/mandark-droid/genai_otel_instrument/releases/tag/v1.3.2"
  context_tokens    = 1048576
  max_output_tokens = 65536
  capabilities      = ["tools", "images", "json_mode", "json_schema", "reasoning"]
  price {
    input_usd_per_million  = 1.5
    output_usd_per_million = 9
    fast_factor            = 2
    flex_factor            = 0.5
    search_usd             = 0.014
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
