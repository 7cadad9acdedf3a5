# An agent that calls tools: conversations stay with their model unless moving
# pays, answers stream once they are final, and turns without tools are routed to
# one model only.

include = ["library:tiers"]

match "plain-chat" {
  when {
    labels = { turn = "chat" }
  }
  strategy "route" {
    lambda = 20
  }
}

strategy "cascade_route" {
  lambda    = 20
  max_depth = 2
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
