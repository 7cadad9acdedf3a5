# Looks on: every call goes to the baseline, and the trace says what stepfall would
# have done and what that would have cost. The first step on the way to enforce.

include = ["library:tiers"]

mode     = "observe"
baseline = "large"

trace {
  file    = "stepfall-observe.jsonl"
  explain = true
}
