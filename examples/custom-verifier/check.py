"""Judges a recipe: it must list its ingredients, and they must weigh 500 g."""
import json
import re
import sys

answer = json.load(sys.stdin)["answer"]["text"]
grams = [int(n) for n in re.findall(r"(\d+) g\b", answer)]
if not grams:
    verdict = {"outcome": "failed", "score": 0, "evidence": "no ingredient has a weight"}
elif sum(grams) != 500:
    verdict = {"outcome": "failed", "score": 0.5, "evidence": f"the ingredients weigh {sum(grams)} g"}
else:
    verdict = {"outcome": "passed", "score": 1, "confidence": 0.95}
json.dump(verdict, sys.stdout)
