# Calls a function of a file with arguments from standard input and writes what it
# returns. What the function itself prints goes to standard error.
import json
import os
import sys

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
source, call = sys.argv[1], json.loads(sys.stdin.readline())
space = {"__name__": "answer", "__file__": source}
exec("from typing import *\nimport bisect, collections, copy, datetime, functools, heapq, itertools, math, operator, random, re, string, sys\n"
     "from bisect import *\nfrom collections import *\nfrom functools import *\nfrom heapq import *\nfrom itertools import *\nfrom math import *\n", space)
sys.path.insert(0, os.path.dirname(os.path.abspath(source)))
sys.argv = [source]
with open(source) as f:
    exec(compile(f.read(), source, "exec"), space)
function = getattr(space["Solution"](), call["function"]) if "Solution" in space else space[call["function"]]
json.dump(function(*call["arguments"]), out)
out.flush()
