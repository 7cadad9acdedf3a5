# Alters what tests in Python expect, by the syntax tree. See package alter.
import ast
import json
import random
import re
import sys

EQUAL = """Equal Equals ListEqual DictEqual TupleEqual SetEqual SequenceEqual MultiLineEqual Is AlmostEqual CountEqual _equal _array_equal _allclose _almost_equal
_array_almost_equal _frame_equal _series_equal _called_with _called_once_with _any_call""".split()
INVERSE = {}
for one, other in (pair.split(":") for pair in "True:False In:NotIn IsNone:IsNotNone NotEqual:Equal IsInstance:NotIsInstance Regex:NotRegex Greater:LessEqual GreaterEqual:Less IsNot:Is".split()):
    INVERSE["assert" + one] = "assert" + other
    INVERSE.setdefault("assert" + other, "assert" + one)
INVERSE.update({"assertEqual": None, "assertIs": None})
EQUAL = {"assert" + name for name in EQUAL} | {"eq_"}
# What helpers of projects are called that compare in the place of an assertion.
HELPER = re.compile(r"(assert|check|expect|same|equal)", re.I)
RAISES = {"assertRaises", "assertRaisesRegex", "raises"}

HELPERS = '''
def @mut(v):
    if isinstance(v, bool): return not v
    if isinstance(v, (int, float, complex)): return 2 * v + @number if v == v and v - v == 0 else 0
    if isinstance(v, str): return v + "@word"
    if isinstance(v, bytes): return v + b"@word"
    if type(v) in (list, tuple) and v: return type(v)([@mut(v[0]), *v[1:]])
    if type(v) is dict and v: return {**v, next(iter(v)): @mut(v[next(iter(v))])}
    if isinstance(v, (list, set, frozenset, tuple, dict)): return [*v, object()]
    return object()
def @fail(*a, **k): raise AssertionError
class @Other(Exception): pass
def @end(f):
    import functools, inspect
    if inspect.iscoroutinefunction(f):
        @functools.wraps(f)
        async def g(*a, **k):
            try: return await f(*a, **k)
            finally: raise AssertionError
    else:
        @functools.wraps(f)
        def g(*a, **k):
            try: return f(*a, **k)
            finally: raise AssertionError
    return g
'''


class Alteration:
    def __init__(self, text, way, rng, whole, names):
        self.source, self.way, self.rng, self.whole, self.names = text.encode(), way, rng, whole, names
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits, self.tests, self.constants = [], [], {}
        self.word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6))
        self.prefix = "_" + self.word + "_"

    def at(self, line, column):
        return self.starts[line - 1] + column

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node):
        start, end = self.span(node)
        return self.source[start:end].decode()

    def put(self, node, text):
        self.edits.append((*self.span(node), text))

    def expected(self, node):
        if self.way == "reach":
            return self.put(node, self.prefix + "fail()")
        node = self.constants.get(node.id, node) if isinstance(node, ast.Name) else node
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool):
            self.put(node, str(not value))
        elif isinstance(value, int):
            self.put(node, str(value + self.rng.randint(1, 97)))
        else:
            self.put(node, self.prefix + "mut(" + self.text(node) + ")")

    def one_of(self, left, right):
        """Alters the side of a comparison that is no call."""
        calls = [any(isinstance(n, ast.Call) for n in ast.walk(side)) for side in (left, right)]
        self.expected(left if calls[1] and not calls[0] else right)

    def truth(self, node):
        """Alters an expression that must be true."""
        if self.way == "reach":
            return self.put(node, self.prefix + "fail()")
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            return self.truth(node.values[0])
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            if isinstance(node.ops[0], ast.Eq):
                return self.one_of(node.left, node.comparators[0])
        self.put(node, "not (" + self.text(node) + ")")

    def call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        if name in RAISES and plain:
            self.put(plain[0], self.prefix + ("fail()" if self.way == "reach" else "Other"))
        elif name in EQUAL and len(plain) >= 2 and len(plain) == len(node.args):
            self.one_of(*plain[:2])
        elif name in EQUAL and "_called" in name + "_any_call" and plain:
            self.expected(plain[0])
        elif HELPER.match(name) and len(plain) >= 2 and name not in INVERSE:
            for argument in plain:
                if isinstance(argument, ast.Constant) and argument.value is not None:
                    self.expected(argument)
        elif INVERSE.get(name) and isinstance(node.func, ast.Attribute):
            start, end = self.span(node.func)
            if self.way == "reach":
                self.edits.append((start, end, self.prefix + "fail"))
            else:
                self.edits.append((end - len(name), end, INVERSE[name]))

    def known(self, node):
        """The constants of names that are given once and asked for once."""
        names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
        once = {n.id for n in names if sum(m.id == n.id for m in names) == 2}
        return {
            n.targets[0].id: n.value
            for n in ast.walk(node)
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant) and isinstance(n.targets[0], ast.Name) and n.targets[0].id in once
        }

    def body(self, node):
        self.constants = self.known(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assert):
                self.truth(inner.test)
            elif isinstance(inner, ast.Call):
                self.call(inner)

    def conditions(self, node):
        """Inverts the conditions under which a script ends."""
        ends = lambda n: isinstance(n, ast.Call) and getattr(n.func, "attr", getattr(n.func, "id", "")) == "exit"
        for inner in ast.walk(node):
            condition = None
            if ends(inner) and inner.args and isinstance(inner.args[0], ast.Compare):
                condition = inner.args[0]
            elif isinstance(inner, ast.If) and any(isinstance(n, ast.Raise) or ends(n) for s in inner.body for n in ast.walk(s)):
                condition = inner.test
            if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and isinstance(condition.ops[0], ast.NotEq):
                self.one_of(condition.left, condition.comparators[0])
            elif condition:
                self.put(condition, self.prefix + "fail()" if self.way == "reach" else "not (" + self.text(condition) + ")")

    def functions(self, node, name=""):
        for inner in node.body:
            if isinstance(inner, ast.ClassDef):
                self.functions(inner, name + inner.name + ".")
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and (inner.name.startswith("test") or inner.name in self.names):
                before = len(self.edits)
                if self.way == "end":
                    start = self.at(inner.lineno, inner.col_offset)
                    self.edits.append((start, start, "@" + self.prefix + "end\n" + " " * inner.col_offset))
                else:
                    self.body(inner)
                if len(self.edits) > before:
                    self.tests.append(name + inner.name)

    def make(self):
        if not self.whole:
            self.functions(self.tree)
        elif self.way == "end":
            start = self.starts[self.first() - 1]
            self.edits.append((start, start, self.prefix + "fail()\n"))
        else:
            self.body(self.tree)
            if not self.edits:  # what is altered twice may come out as it was
                self.conditions(self.tree)
        if self.whole and self.edits:
            self.tests = [""]
        out, at, count = [], 0, 0
        for start, end, text in sorted(self.edits, key=lambda e: (e[0], -e[1])):
            if start >= at:
                out += [self.source[at:start], text.encode()]
                at, count = end, count + 1
        source = b"".join(out) + self.source[at:]
        return self.with_helpers(source).decode(), count

    def first(self):
        """The line of the first statement that may follow others."""
        for node in self.tree.body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node is self.tree.body[0]
            if not docstring and getattr(node, "module", "") != "__future__":
                return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
        return 1

    def with_helpers(self, source):
        helpers = HELPERS.replace("@functools", "\0").replace("@number", str(self.rng.randint(3, 97))).replace("@word", self.word).replace("@", self.prefix).replace("\0", "@functools")
        at = self.starts[self.first() - 1]
        return source[:at] + helpers.encode() + source[at:]


def main(request_file, report):
    with open(request_file) as f:
        request = json.load(f)
    rng, altered = random.Random(request["seed"]), []
    for file in request["files"]:
        try:
            alteration = Alteration(file["text"], request["way"], rng, request.get("whole", False), request.get("names", []))
            text, count = alteration.make()
            compile(text, file["path"], "exec")
        except (SyntaxError, ValueError, RecursionError):
            continue
        if count:
            altered.append({"path": file["path"], "text": text, "tests": alteration.tests, "count": count})
    with open(report, "w") as f:
        json.dump(altered, f)


main(*sys.argv[1:])
