# An agent that calls tools: conversations stay with their model unless moving
# pays, plain answers stream as they come, and a turn whose tool call the free checks
# reject goes to the other model. Turns that only chat are worth less.

include = ["library:tiers"]

match "plain-chat" {
  when {
    labels = { turn = "chat" }
  }
  strategy "route" {
    worth_usd = 0.01
  }
}

session {
  cache_aware  = true
  idle_timeout = "30m"
}

stream {
  mode = "commit"
}

budget {
  step_usd = 0.5
  run_usd  = 5
}
