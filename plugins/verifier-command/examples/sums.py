#!/usr/bin/env python3
"""Recomputes every sum in an answer: the score is the share that is right."""
import json
import re
import sys

text = json.load(sys.stdin)["answer"].get("text", "")
sums = re.findall(r"(-?\d+) \+ (-?\d+) = (-?\d+)", text)
wrong = [f"{a} + {b} is {int(a) + int(b)}, not {c}" for a, b, c in sums if int(a) + int(b) != int(c)]
if not sums:
    verdict = {"outcome": "inconclusive", "evidence": "the answer holds no sum"}
else:
    verdict = {
        "outcome": "failed" if wrong else "passed",
        "score": 1 - len(wrong) / len(sums),
        "evidence": "\n".join(wrong),
    }
json.dump(verdict, sys.stdout)
