# Looks on: every call goes to the baseline, and the trace says what stepfall would
# have done, what that would have cost, and what the judge thinks of the answer: all
# that stepfall policy plan and stepfall fit ask for. The first step on the way to
# enforce.

include = ["library:tiers"]

mode     = "observe"
baseline = "large"

verifier "judge" {
  plugin  = "verifier-judge"
  max_usd = 0.01 # the most that judging one answer may cost
  config {
    model = "small"
  }
}

strategy "cascade_route" {
  worth_usd = 0.05 # what a right answer is worth
}

trace {
  file    = "stepfall-observe.jsonl"
  explain = true
}
