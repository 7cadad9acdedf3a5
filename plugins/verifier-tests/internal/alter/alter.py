# Alters what tests in Python expect, by the syntax tree. See package alter.
import ast
import builtins
import functools
import json
import random
import re
import string
import sys
import textwrap
import tokenize

EQUAL = """Equal Equals ListEqual DictEqual TupleEqual SetEqual SequenceEqual MultiLineEqual Is AlmostEqual CountEqual In _equal _array_equal _allclose _almost_equal
_array_almost_equal _frame_equal _series_equal _called_with _called_once_with _any_call""".split()
EQUAL = {"assert" + name for name in EQUAL} | {"eq_"}
# What must be true, or false, of the arguments of an assertion.
TRUTHS = {"assertFalse": ("{}", False)}
for true, false, condition in (
    ("IsNone", "IsNotNone", "({}) is None"), ("IsInstance", "NotIsInstance", "isinstance({}, {})"), ("Regex", "NotRegex", "__import__('re').search({1}, {0})"),
    ("Greater", "LessEqual", "({}) > ({})"), ("Less", "GreaterEqual", "({}) < ({})"), ("", "NotEqual", "({}) == ({})"), ("", "IsNot", "({}) is ({})"), ("", "NotIn", "({}) in ({})"),
):
    TRUTHS |= {"assert" + true: (condition, True), "assert" + false: (condition, False)}
# The operators of which another says the contrary.
CONTRARY = {ast.NotEq: "==", ast.IsNot: "is", ast.NotIn: "in", ast.LtE: ">", ast.GtE: "<"}
# What functions and methods are called that compare in the place of an operator, and
# helpers of projects in the place of an assertion.
COMPARER = re.compile(r"_*(is_?)?(eq|equals?|equal_?to|same(_?as)?|identical|match(es)?|array_equal|allclose|isclose|startswith|endswith)_*$", re.I)
# What functions are called that return nothing, or 0, where their arguments are the same.
DIFFERENCE = re.compile(r"_*(\w+_)?(cmp|compare(_?to)?|diff(erence|erences)?|mismatch(es)?)_*$", re.I)
HELPER = re.compile(r"(assert|check|expect|same|equal)(?!.*_(call|output)$)", re.I)
# What functions are called that only put their arguments together, beside classes.
MAKER = re.compile(r"[A-Z]\w*$|(approx|array|bytes|date|datetime|deque|dict|frozenset|list|set|sorted|timedelta|tuple)$")
# Calls that bring a value into the form in which it is compared.
CONVERTER = re.compile(r"(abs|all|any|approx|array|bool|bytes|copy|deepcopy|dict|dumps|float|frozenset|int|isinstance|len|list|loads|max|min|repr|round|set|sorted|str|sum|tuple|type)$")
# Calls that walk through what they are given.
WALKER = re.compile(r"(enumerate|iter|next|param|parametrize|range|reversed|zip)$")
# Conditions that are about the machine.
MACHINE = re.compile(r"\b(argv|environ|__name__|platform|version\w*)\b")
RAISES = {"assertRaises", "assertRaisesRegex", "raises"}
# A character as it is written, or the verb of a format.
ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|%[a-z]|.", re.S)
READS = re.compile(r"(read|load|open)", re.I)
# How many arguments stand before what is said where a test fails, or of it; two for other assertions.
SAYS = {"assertTrue": 1, "assertFalse": 1, "fail": 0, "subTest": 0, "AssertionError": 0}
# A number, or a text that is the same in other quotes, and in a comment.
PLAIN_LITERAL = re.compile(r"""-?[\d.]+|[bru]*("|')([^'"\\\n{}%]+)\1""")
# What compares as == does.
STRICT = re.compile(r"(assert((List|Dict|Tuple|Set|MultiLine)?Equals?|Is)|eq_)?$")
# The kinds of alterations, the best first: a test is altered by one kind only, since one
# that fails by a worse kind would hide that it does not fail by a better one.
LITERAL, DATA, VALUE, TRUTH = range(4)

RECORDS = '''
import os as @os
@file = @os.open(@os.path.join(@os.path.dirname(@os.path.abspath(__file__)), @record), @os.O_CREAT | @os.O_APPEND | @os.O_WRONLY, 0o666)
@first = {}
def @saw(site, v, near=None, write=@os.write):
    write(@file, (site + "\\t" + @note(@step_of(v, *near) if near else v) + "\\n").encode())
    return v
def @hold(site, v, near=None):
    """Notes a value. What is compared second becomes what was compared first, and the test is to fail at its end."""
    @saw(site, v, near)
    if not @holds and not @running: return v
    name = site.rstrip("=")
    other, known = @first.pop(name, (site, v))
    if other == site: @first[name] = site, v
    if other == site: return v
    try: is_same = bool(known == v)
    except Exception: is_same = False
    if not is_same: @different.append(name)
    return known
def @truth(site, v, wanted, goes_on):
    """Notes whether a value is true, and returns whether that is what is wanted."""
    is_same = bool(v) == wanted
    @saw(site, bool(v))
    if goes_on and @running and not is_same: @different.append(site)
    return is_same or @holds or bool(goes_on and @running)
'''

HELPERS = '''
def @mut(v):
    if isinstance(v, bool): return not v
    if isinstance(v, (int, float, complex)): return 2 * v + @number if v == v and v - v == 0 else 0
    if isinstance(v, (str, bytes)): return v + ("@word" if isinstance(v, str) else b"@word")
    if type(v) in (list, tuple) and v: return type(v)([@mut(v[0]), *v[1:]])
    if type(v) is dict and v: return {**v, next(iter(v)): @mut(v[next(iter(v))])}
    if isinstance(v, (list, set, frozenset, tuple, dict)): return [*v, object()]
    return object()
def @none(v): return chr(0xe000) if isinstance(v, str) else b"\\0" if isinstance(v, bytes) else [object()]
def @fail(*a, **k): raise AssertionError
class @Other(Exception): pass
@running, @different = [], []
def @end(f):
    import contextlib, functools, inspect
    @contextlib.contextmanager
    def ending():
        before = len(@different)
        @running.append(f)
        try: yield
        finally:
            @running.pop()
            if @always or len(@different) > before: raise AssertionError
    if inspect.iscoroutinefunction(f):
        @functools.wraps(f)
        async def g(*a, **k):
            with ending(): return await f(*a, **k)
    else:
        @functools.wraps(f)
        def g(*a, **k):
            with ending(): return f(*a, **k)
    return g
'''


def last_name(node):
    """The name of a variable or member, "" for what is neither."""
    return getattr(node, "attr", getattr(node, "id", ""))


def called(node):
    """The name of the function or method that is called, "" for what is no call."""
    return last_name(getattr(node, "func", None))


def parsed(text):
    """The syntax tree of an expression, which may stand on several lines."""
    return ast.parse("(" + text.strip() + "\n)")


def tells(call):
    """Whether a call only says something of the test."""
    return called(call) in ("subTest", "fail") or getattr(call.func, "id", "") == "print"


def is_call_of_code(call):
    return not (called(call) in EQUAL | {"append"} or tells(call) or HELPER.match(called(call)))


def has_call(node):
    return any(isinstance(n, ast.Call) for n in ast.walk(node))


def is_with(node, *names):
    """Whether a node is a with of calls of these names, or of their members."""
    is_named = lambda c: isinstance(c, ast.Call) and (called(c) in names or last_name(getattr(c.func, "value", None)) in names)
    return isinstance(node, ast.With) and all(is_named(i.context_expr) for i in node.items)


def is_subtest(node):
    return is_with(node, "subTest")


def catches_nothing(node):
    """Whether a failure within a with is one of its test."""
    return is_with(node, "subTest", "open", "TemporaryDirectory", "NamedTemporaryFile", "patch", "catch_warnings")


def member(whole, key):
    """What a display of values has at a constant key."""
    if isinstance(whole, ast.Dict):
        return [v for k, v in zip(whole.keys, whole.values) if getattr(k, "value", None) == key]
    return whole.elts[key:][:1] if isinstance(whole, (ast.List, ast.Tuple)) and type(key) is int else []


def near_to(node):
    """The number in an expected value that is compared with what is near."""
    return node.args[0] if isinstance(node, ast.Call) and called(node) == "approx" and node.args else node


def root(node):
    """The name of what an expression selects a member of."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return getattr(node, "id", "")


def makes(node):
    """Whether a call makes a value of its arguments."""
    return bool(MAKER.match(called(node))) and not has_call(node.func)


def asserted_sides(function):
    """What a function asserts to be equal to something."""
    asserted = [n.test for n in ast.walk(function) if isinstance(n, ast.Assert)] + [n for n in ast.walk(function) if called(n) in EQUAL]
    return {s for n in asserted for s in ([n.left, *n.comparators] if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.Eq) else n.args[:2] if called(n) in EQUAL else [])}


def parameter_names(decorator):
    names = decorator.args[0]
    return re.split(r"[,\s]+", names.value.strip()) if isinstance(names, ast.Constant) else [getattr(n, "value", "") for n in getattr(names, "elts", [])]


class Alteration:
    def __init__(self, path, text, request, rng):
        self.path, self.name = path, ""
        self.source, self.way, self.rng = text.encode(), request["way"], rng
        self.whole, self.names, self.data = request.get("whole", False), request.get("names") or [], request.get("data", False)
        self.record, self.rest = request.get("record", ""), request.get("rest", False)
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        # kinds has the edits of the test at hand by their kind.
        self.edits, self.kinds, self.function = [], None, self.tree
        self.tests, self.truths, self.left, self.compared = [], [], [], []
        self.questions, self.answerable, self.fault, self.unseen = [], [], "", []
        # masked are the edits without which a question would hold what is expected.
        self.masked = []
        # inputs are where the values stand that functions give the code, by functions; it gathers them at first.
        self.inputs, self.gathers = None, False
        # outermost are the nodes outside of functions and classes.
        self.outermost = [n for s in self.tree.body if not isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for n in ast.walk(s)]
        # given are the names that functions are given, or fixtures ask for: outside of a test
        # they may be another's input.
        self.told = self.gather_told()
        calls = [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and is_call_of_code(n) and n not in self.told]
        asks = [f for f in ast.walk(self.tree) if isinstance(f, ast.FunctionDef) and any("fixture" in self.text(d) for d in f.decorator_list)]
        self.given = {a.id for n in calls if not WALKER.match(called(n)) for a in n.args + [k.value for k in n.keywords] if isinstance(a, ast.Name)} | {a.arg for f in asks for a in f.args.args}
        # helpers are the functions and classes that are no tests, and have none; kept are edits by which they keep constants.
        is_test = lambda f: f.name.startswith("test") or f.name in self.names
        self.helpers = [f for f in ast.walk(self.tree) if isinstance(f, FUNCTIONS) and not is_test(f) or isinstance(f, ast.ClassDef) and not any(is_test(n) for n in ast.walk(f) if isinstance(n, FUNCTIONS))]
        self.kept = []
        # lists are what is given a list.
        self.lists = {self.text(n.targets[0]) for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and (isinstance(n.value, (ast.List, ast.ListComp)) or self.text(n.value) == "list()")}
        self.word = self.draw()
        self.prefix = "_" + self.word + "_"

    def draw(self):
        return "".join(self.rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6))

    def at(self, line, column):
        return self.starts[line - 1] + column

    def span(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node):
        start, end = self.span(node)
        return self.source[start:end].decode()

    def put(self, kind, site, *edits, records=()):
        """Notes an alteration: what is to be put, or in its place a failure at the site."""
        edits = [e for e in edits if e[2].encode() != self.source[e[0]:e[1]]]
        self.is_open = self.is_open or site not in self.asked
        if self.way == "reach":
            edits, records = [(*self.span(site), self.prefix + "fail()")] if edits else (), ()
        elif self.way == "record" or self.way == "hold" and len(records) < 3:
            edits = ()
        self.kinds[kind].extend([*edits, *records])

    def recorded(self, node, actual, values, name):
        """Has it noted what is compared with an expected value."""
        if actual is None or not self.record or node in self.either or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(actual)):
            return []
        near, text = self.steps(node, values, name), self.text(actual)
        try:
            notes = [note(step_of(ast.literal_eval(near_to(v)), *near) if near else ast.literal_eval(v)) for v in values] if near or STRICT.match(name) else []
        except ValueError:
            notes = []
        site = "%s:%d" % (self.path, len(self.compared))
        self.compared.append({"name": site, "test": self.name, "values": notes, "lenient": node in self.lenient, "listed": bool(notes) and self.is_always_reached(node, len(notes))})
        self.ask(node, actual, "(lambda v, width, start: start + ((float(v) - start) // width + 0.5) * width if hasattr(v, '__float__') else v)(%s, %r, %r)" % (text, *near) if near else text, notes)
        holds = notes and (self.way == "hold" or self.way == "expectation" and node not in self.caught)
        self.holds = self.holds or bool(holds) and self.way == "expectation"
        saw = lambda site: "%s%s(%r, " % (self.prefix, "hold" if holds else "saw", site)
        start, end = self.span(node)
        after = ", %r)" % (near,) if near else ")"
        records = [self.replaced(actual, saw(site) + text + after), (start, start, saw(site + "=")), (end, end, after)]
        return records[:1] if self.way == "hold" and not notes else records

    def steps(self, node, values, name):
        """The width and the start of steps, of which what is near enough to an expected number is in the same; None for others."""
        try:
            numbers = [ast.literal_eval(near_to(v)) for v in values]
            far = [self.tolerance(v, abs(n)) if v is not near_to(v) else name == "AlmostEqual" and self.distance for v, n in zip(values, numbers)]
            width = 4 * len(far) * max(far)
            at = sorted(n % width for n in numbers)
            # A step begins where the numbers are the farthest.
            return width, max((b - a, (a + b) / 2) for a, b in zip(at, at[1:] + [at[0] + width]))[1]
        except (ValueError, TypeError, ZeroDivisionError):
            return None

    def tolerance(self, call, number=0):
        """How far from a number something may be that a call takes for the same."""
        given = {k.arg: self.number(k.value) for k in call.keywords if k.arg in ("abs", "delta", "places", "rel")}
        if called(call) != "approx":
            return given.get("delta", 0.5 * 10 ** -given.get("places", self.number(call.args[2]) if len(call.args) > 2 else 7))
        relative = given.get("rel", 0 if "abs" in given else 1e-6)
        return max(relative * number, given.get("abs", 1e-12))

    def number(self, node):
        """The number that an expression, or a name, stands for."""
        value, = self.bound(node.id) if isinstance(node, ast.Name) else [node]
        return ast.literal_eval(value)

    def is_always_reached(self, node, count):
        """Whether a test that passes has come to a comparison so often."""
        skips = (ast.Return, ast.Break, ast.Continue, ast.IfExp, ast.Lambda)
        owners = [owner for _, _, owner in around(self.function, node)]
        loops = [o for o in owners if isinstance(o, ast.For)]
        is_plain = all(o is self.function or o in loops or is_subtest(o) for o in owners) and not any(isinstance(n, skips) for n in ast.walk(self.function))
        # One that is to fail may hold by what it is altered to, and end the test.
        is_plain &= not any(isinstance(n, ast.Assert) or isinstance(n, ast.Call) and called(n) in EQUAL for n in self.lenient)
        rows = [len(self.items(loop.iter)) for loop in loops if root(node) in stored(loop.target)]
        # Other data may be what the test gives the code.
        return is_plain and not self.whole and not self.data and rows + [1] * (not loops) == [count]

    def ask_both(self, site, actual):
        """Has both sides of a comparison asked, each where the other is not."""
        if self.way == "expectation" and site not in self.lenient | self.either:
            sides = [questions(self, place, self.text(place), site, 1, place is site) for place in (actual, site)]
            if len(sides[0]) == len(sides[1]):
                self.questions += [{"file": self.path, "test": self.name, "program": p.program(), "alone": p.steps < 2, "expected": e.program()} for p, e in zip(*sides)]
                self.asked |= {site} if sides[0] else set()

    def ask(self, site, place, text, values):
        """Has what is compared there asked outside of the tests, too."""
        own = self.name.split(".")[-1]
        # What things and lines of a test are called can be known there alone.
        is_own = any(own and own in v or "<locals>" in v or "(" in v and self.source.count(v[2:-1].encode()) > 1 for v in values)
        if self.way == "expectation" and site not in self.lenient | self.either and 0 < len(values) <= MAX_ROWS and not is_own:
            self.masked = [edit for v in self.sources(site) if hasattr(v, "lineno") for edit in self.others(v) or [self.replaced(v, "None")]]
            asked = questions(self, place, text, site, len(values))
            self.masked = []
            if not asked and text == self.text(place):
                self.ask_loop(site, place, values)
            self.questions += [{"file": self.path, "test": self.name, "program": q.program(), "alone": q.steps < 2, "value": values[i % len(values)]} for i, q in enumerate(asked)]
            self.asked |= {site} if asked else set()

    def ask_loop(self, site, place, values):
        """Has what a loop compares beside another list, or by its number, asked as one list: a loop ends with the shorter."""
        loops = [n for n in ast.walk(self.function) if isinstance(n, ast.For) and site in ast.walk(n)]
        columns = loops[0].iter if len(loops) == 1 else None
        if not isinstance(columns, ast.Call) or called(columns) not in ("zip", "enumerate") or columns.keywords or not all(map(is_assertion, loops[0].body)):
            return
        targets = getattr(loops[0].target, "elts", [])[called(columns) == "enumerate":]
        if len(targets) != len(columns.args) or any(names(columns) & names(s) for s in loops[0].body):
            return
        # What is expected is not given to the question.
        count, given, left = "range(%d)" % len(values), [], set()
        for target, column in zip(targets, columns.args):
            is_expected = bool(stored(target) & names(site))
            given.append(count if is_expected else self.text(column))
            left |= stored(target) if is_expected else set()
        if left & names(place):
            return
        text = "[(%s) for (%s), _ in zip(%s(%s), %s)]" % (self.text(place), self.text(loops[0].target), called(columns), ", ".join(given), count)
        asked = questions(self, columns, text, site, 1)
        whole = note([])[:-1] + ",".join(v[1:] for v in values) + ")"
        # Who compares with a longer list may mean to.
        self.questions += [{"file": self.path, "test": self.name, "program": q.program(), "alone": False, "value": whole} for q in asked]
        self.asked |= {site} if asked else set()

    def ask_raised(self, node, plain):
        """Has what must raise an error asked outside of the tests: a call, or the end of a block."""
        has_pattern = called(node) == "assertRaisesRegex"
        called_with = node.args[1 + has_pattern:]
        pattern = plain[1] if has_pattern else next((k.value for k in node.keywords if k.arg == "match" and not called_with), ast.Constant(""))
        last = next((w.body[-1] for w in ast.walk(self.function) if raises(w) and w.items[0].context_expr is node), None)
        is_value = isinstance(last, ast.Expr) or isinstance(last, ast.Assign) and all(isinstance(t, ast.Name) for t in last.targets)
        place = node if called_with else last.value if is_value else None
        kinds = [self.error(k) for k in (plain[0].elts if isinstance(plain[0], ast.Tuple) else [plain[0]])]
        if place is None or not all(kinds) or not isinstance(pattern, ast.Constant) or self.way != "expectation" or self.is_expected_to_fail(self.function):
            return
        text = self.text(place) if not called_with else "(%s)(%s)" % (self.text(called_with[0]), ", ".join(map(self.text, called_with[1:] + node.keywords)))
        value = "=raised " + json.dumps([kinds, pattern.value])
        asked = questions(self, place, text, ast.Constant(None), 1)
        self.questions += [{"file": self.path, "test": self.name, "program": q.program(), "alone": q.steps < 2, "value": value} for q in asked]
        self.asked |= {plain[0], place} if asked else set()

    def error(self, node):
        """The name of a class of errors, with a dot before it where it is not the language's; "" where it is a test's own."""
        own = stored(self.function) | {getattr(a, "arg", "") for a in ast.walk(self.function)}
        if isinstance(node, ast.Attribute):
            return "." + node.attr
        if not isinstance(node, ast.Name) or node.id in own:
            return ""
        defines = [s for s in self.tree.body if node.id in defined(s)]
        names = [a.name for s in defines for a in getattr(s, "names", []) if node.id in (a.asname, a.name)]
        return "." + (names or [node.id])[0] if defines else getattr(getattr(builtins, node.id, None), "__name__", "." + node.id)

    def replaced(self, node, text):
        return (*self.span(node), text)

    # Where values come from.

    def literals(self, node):
        """The literals that an expression is made of; none where something else is."""
        if isinstance(node, ast.Constant):
            return [] if node.value is ... else [node]
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [found for inner in node.elts for found in self.literals(inner)]
        if isinstance(node, ast.Dict):
            return [found for inner in node.values for found in self.literals(inner)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [node] if isinstance(node.operand, ast.Constant) else []
        if isinstance(node, ast.Call) and makes(node):
            return [found for inner in node.args or [k.value for k in node.keywords] for found in self.literals(inner)]
        return []

    def bound(self, name):
        """The expressions that give a name its values, where all are known."""
        for scope in (self.function, self.tree):
            found = []
            for node in ast.walk(scope) if scope is self.function else self.outermost:
                if isinstance(node, ast.Assign):
                    found += [v for target in node.targets for v in self.members(target, name, [node.value])]
                elif isinstance(node, (ast.For, ast.comprehension)) and any(getattr(n, "id", "") == name for n in ast.walk(node.target)):
                    found += self.members(node.target, name, self.items(node.iter))
            for decorator in getattr(scope, "decorator_list", []):
                if isinstance(decorator, ast.Call) and called(decorator) == "parametrize" and len(decorator.args) > 1 and name in parameter_names(decorator):
                    found += self.parameters(decorator, name)
            if scope is not self.tree and name in [a.arg for a in scope.args.args]:
                found += self.fixture(name)
            given = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(scope))
            if found or given or scope is self.tree or name in [a.arg for a in scope.args.args]:
                return found

    def fixture(self, name):
        """What a fixture of the file gives the tests that ask for it."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name and any("fixture" in self.text(d) for d in node.decorator_list):
                return [n.value for n in ast.walk(node) if isinstance(n, (ast.Return, ast.Yield)) and n.value]
        return []

    def conftests(self):
        """The syntax trees of the conftest.py that the file has, the nearest first."""
        folders = self.path.split("/")[:-1]
        for at in range(len(folders), -1, -1):
            try:
                with open("/".join(folders[:at] + ["conftest.py"])) as f:
                    yield ast.parse(f.read())
            except (OSError, SyntaxError, ValueError):
                pass

    def attribute(self, name):
        """What the attribute of a test's class is given."""
        found = []
        for node in ast.walk(self.tree):
            inner = node.body if isinstance(node, ast.ClassDef) else [node]
            found += [n.value for n in inner if isinstance(n, ast.Assign) for t in n.targets if getattr(t, "attr" if n is node else "id", "") == name]
        return found

    def parameters(self, decorator, name):
        names = parameter_names(decorator)
        target = ast.Tuple([ast.Name(n) for n in names]) if len(names) > 1 else ast.Name(names[0] if names else "")
        rows = [ast.Tuple(v.args) if isinstance(v, ast.Call) and called(v) == "param" else v for v in self.items(decorator.args[1])]
        return self.members(target, name, rows)

    def members(self, target, name, values):
        """What of the values a name in a target takes."""
        if isinstance(target, ast.Name):
            return values if target.id == name else []
        found = []
        for i, inner in enumerate(getattr(target, "elts", [])):
            found += self.members(inner, name, [v.elts[i] for v in values if i < len(getattr(v, "elts", []))])
        return found

    def values(self, node):
        """What a name, or an attribute of the test's class, may stand for; else the node."""
        if isinstance(node, ast.Attribute):
            return self.attribute(node.attr) if self.text(node.value) in ("self", "cls") else []
        return self.bound(node.id) if isinstance(node, ast.Name) else [node]

    def items(self, node):
        """The elements of what is iterated over."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return node.elts
        whole = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and called(node) == "items" else node
        if isinstance(whole, (ast.Name, ast.Attribute)):
            loops = [n for n in ast.walk(self.function) if isinstance(n, (ast.For, ast.comprehension)) and any(hasattr(i, "lineno") and self.text(i) == self.text(whole) for i in ast.walk(n.iter))]
            is_given = getattr(whole, "id", "") in self.given and not any(isinstance(n, ast.Name) and n.id == whole.id and isinstance(n.ctx, ast.Store) for n in ast.walk(self.function))
            if not self.gathers and (is_given or self.is_input(whole) or len(loops) > 1): # what is put into something may be expected of it
                return []
        if isinstance(node, (ast.Name, ast.Attribute)):
            return [item for value in self.values(node) if not isinstance(value, (ast.Name, ast.Attribute)) for item in self.items(value)]
        if isinstance(node, ast.Call) and called(node) == "items":
            return [ast.Tuple([k, v]) for m in self.values(getattr(node.func, "value", node.func)) if isinstance(m, ast.Dict) for k, v in zip(m.keys, m.values)]
        if isinstance(node, ast.Call) and called(node) in ("zip", "enumerate"):
            columns = [self.items(argument) for argument in node.args]
            if called(node) == "enumerate":
                columns.insert(0, [])
            unknown = ast.Constant(None)
            return [ast.Tuple([c[i] if i < len(c) else unknown for c in columns]) for i in range(max(map(len, columns), default=0))]
        return []

    def handed(self):
        """What the function at hand gives to calls that neither compare nor convert it: the code may get it."""
        is_code = lambda n: isinstance(n, ast.Call) and (is_call_of_code(n) or self.appends_to_code(n)) and not any(names.match(called(n)) for names in (CONVERTER, WALKER, COMPARER))
        calls = [n for n in ast.walk(self.function) if is_code(n) and n not in self.told]
        return [n for call in calls for a in call.args + [k.value for k in call.keywords] for n in ast.walk(a) if isinstance(n, (ast.Name, ast.Subscript, ast.Attribute))]

    def appends_to_code(self, call):
        """Whether something is appended to what is no list of the test's own, or to one that it gives the code."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
            return False
        owner = self.text(call.func.value)
        return owner in self.given or owner not in self.lists

    def is_input(self, member):
        """Whether the test gives the code a value, or something that it is a member of, or changes that."""
        wholes, parts = [member], (ast.Subscript, ast.Attribute)
        while isinstance(wholes[-1], ast.Subscript):
            wholes.append(wholes[-1].value)
        texts, nodes = set(map(self.text, wholes)), list(ast.walk(self.function))
        selected = {n.value for n in nodes if isinstance(n, parts)}

        def is_given(n):
            return self.text(n) in texts and n not in selected or isinstance(n, parts) and self.text(n) == self.text(member)

        def is_changed(n):
            if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load):
                return self.text(n if isinstance(n.slice, ast.Constant) else n.value) in texts
            # What a method gives is not used where it is called to change something.
            return isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and isinstance(n.value.func, ast.Attribute) and self.text(n.value.func.value) in texts

        return any(map(is_given, self.handed())) or isinstance(member, ast.Subscript) and any(map(is_changed, nodes))

    def is_input_elsewhere(self, node):
        """Whether another function of the file gives the code a value, of a table that several have."""
        if self.inputs is None:
            self.gather_inputs()
        start, end = self.span(node)
        return any(start < b and a < end for f, spans in self.inputs.items() if f is not self.function for a, b in spans)

    def gather_inputs(self):
        """Notes what functions give the code that have it from outside of them."""
        own, self.inputs, self.gathers = self.function, {}, True
        assigned = [s for n in ast.walk(self.tree) if hasattr(n, "body") for s in (n.body if isinstance(n, (ast.Module, ast.ClassDef)) or getattr(n, "name", "") == "setUp" else [])]
        tables = set().union(*(defined(s) for s in assigned if isinstance(s, (ast.Assign, ast.AnnAssign))))
        for self.function in [f for f in ast.walk(self.tree) if isinstance(f, FUNCTIONS) and names(f) & (tables | {"self." + t for t in tables})]:
            selected = {n.value for n in ast.walk(self.function) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)}
            self.inputs[self.function] = [self.span(v) for n in self.handed() if n not in selected for v in self.reached(n) if hasattr(v, "lineno")]
        self.function, self.gathers = own, False

    def reached(self, node, depth=0):
        """The expressions that a name stands for, or a member of what it does at constant keys; else the node."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return [v for whole in self.reached(node.value, depth + 1) for m in member(whole, node.slice.value) for v in self.reached(m, depth + 1)]
        if isinstance(node, ast.Name) and depth < 9:
            return [r for v in self.bound(node.id) for r in (self.reached(v, depth + 1) if isinstance(v, ast.Subscript) else [v])]
        return self.gathers and self.values(node) or [node]

    def sources(self, node):
        """The expressions behind the expected one, where they are it alone."""
        values = self.behind(node)
        return [] if any(v is not node and hasattr(v, "lineno") and self.is_input_elsewhere(v) for v in values) else values

    def behind(self, node):
        """Those of the test, whatever others do with them."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and root(node) not in ("", "self", "cls"):
            return [] if self.is_input(node) else self.reached(node)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and not isinstance(node.slice, ast.Slice):
            uses = [n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == node.value.id and isinstance(n.ctx, ast.Load)]
            lists = [v for v in self.bound(node.value.id) if isinstance(v, (ast.List, ast.Tuple))]
            return [item for v in lists for item in v.elts] if len(uses) == 1 and node.value.id not in self.given and lists else [node]
        if isinstance(node, ast.Attribute) and self.text(node.value) in ("self", "cls"):
            uses = [n for n in ast.walk(self.function) if isinstance(n, ast.Attribute) and n.attr == node.attr]
            return len(uses) == 1 and self.attribute(node.attr) or [node]
        if not isinstance(node, ast.Name):
            return [node]
        lists = [n for n in ast.walk(self.function) if isinstance(n, ast.Call) and called(n) == "append" and not self.appends_to_code(n)]
        told = self.told.union(*map(ast.walk, lists))
        others = [n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == node.id and isinstance(n.ctx, ast.Load) and n not in told and n not in self.sites]
        is_local = any(isinstance(n, ast.Name) and n.id == node.id and isinstance(n.ctx, ast.Store) for n in ast.walk(self.function))
        if others or not is_local and node.id in self.given:
            return []
        given = [s for s in self.function.body if isinstance(s, ast.Assign) and any(getattr(t, "id", "") == node.id for t in s.targets)]
        if len(given) > 1 and not any(node.id in stored(s) for s in self.function.body if s not in given):
            return [s.value for s in given if s.lineno < node.lineno][-1:]
        return self.bound(node.id) if is_local or self.keep_for_helpers(node.id) else []

    def keep_for_helpers(self, name):
        """Has what is no test use the value of a constant in place of its name, since a double of the code would pass on
        what is altered. Returns whether that can be had."""
        nodes = {n for f in self.helpers if f is not self.function and name in names(f) for n in ast.walk(f)}
        values = self.bound(name) if nodes else []
        is_own = any(isinstance(n, (ast.JoinedStr, ast.Global)) or getattr(n, "arg", "") == name or isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in nodes)
        if nodes and (is_own or len(values) != 1 or not isinstance(values[0], ast.Constant)):
            return False
        self.kept += [self.replaced(n, self.text(values[0])) for n in nodes if isinstance(n, ast.Name) and n.id == name]
        return True

    # What is altered.

    def others(self, value):
        """Puts others in the place of the literals of a value, or of nothing. As far as there are any they are none of
        those: altered among one another, those of a set would be the same set."""
        texts = {self.text(leaf) for leaf in self.literals(value)}
        if texts:
            drawn = lambda leaf: next((text for text in (self.other(leaf) for _ in range(20)) if text not in texts), self.other(leaf))
            return [self.replaced(leaf, drawn(leaf)) for leaf in self.literals(value)]
        return [self.replaced(value, self.filled(value))] * bool(self.filled(value))

    def filled(self, node):
        """What stands for a value that holds nothing; "" for others."""
        empty = isinstance(node, (ast.List, ast.Tuple)) and not node.elts or isinstance(node, ast.Dict) and not node.keys
        return {ast.List: "[%r]", ast.Tuple: "(%r,)", ast.Dict: "{%r: 1}"}[type(node)] % self.word if empty and hasattr(node, "lineno") else ""

    def other(self, node):
        """A literal of the same kind that has nothing of another, in the same quotes. What has few others would say by each of
        them what it was."""
        value, text = ast.literal_eval(node), self.text(node)
        if value is None or isinstance(value, bool):
            return "object()"
        if isinstance(value, int):
            return str(self.other_number(value))
        if isinstance(value, float):
            return "%s%d.%d" % (self.rng.choice(("", "-") if value < 0 else ("",)), self.rng.randint(int(abs(value)) // 2, 3 * int(abs(value)) + 9), self.rng.randint(1, 999) * 10 + self.rng.randint(1, 9))
        if isinstance(value, complex):
            return repr(2 * value + self.rng.randint(3, 97))
        end = 3 if text.endswith(('"""', "'" * 3)) else 1
        start = re.match(r"\w*", text).end() + end
        changed = text[:start] + self.other_text(text[start:-end]) + text[-end:]
        try:
            ast.literal_eval(changed)
        except (SyntaxError, ValueError):  # of texts side by side, and of characters by their names
            changed = repr(self.other_text(value) if isinstance(value, str) else self.other_text(value.decode("latin1")).encode("latin1"))
        return changed

    def other_number(self, n):
        """Another number with as many digits, and as many of them 0 at its end. What is next to 0 may be of the other sign."""
        zeros = 10 ** (len(str(n)) - len(str(n).rstrip("0"))) if n else 1
        low = 10 ** (len(str(abs(n))) - 1) // zeros
        found = n
        while found == n:
            found = self.rng.randrange(low if low > 1 else 0, 10 * low) * zeros * (self.rng.choice((1, -1)) if n < 2 else 1)
        return found

    def other_text(self, text):
        """A text of the same form, as in text.go: with other letters of the same case, and other digits."""
        def other(match):
            kind = next((k for k in (string.ascii_lowercase, string.ascii_uppercase, string.digits) if match[0] in k), "")
            return self.rng.choice(kind.replace(match[0], "")) if len(match[0]) == 1 and kind else match[0]

        changed = ESCAPE.sub(other, text)
        return changed if changed != text else text + self.word

    def expected(self, node, name="", actual=None, holds=False):
        """Alters an expected value, which is compared with the actual one by what has the name, or holds it."""
        self.sites.add(node)
        if holds: # of which another that is altered may hold it too
            return self.put(VALUE, node, self.replaced(node, self.prefix + "none(" + self.text(node) + ")"))
        values = self.sources(node)
        if any(map(self.literals, values)):
            count = len(self.compared)
            records = self.recorded(node, actual, values, name)
            self.begins = min(self.begins, (self.span(node)[0], any(c["values"] for c in self.compared[count:])))
            if self.rest and self.compared[count:] and self.compared[count]["values"]:
                self.is_covered = bool(self.compared.pop())
                return
            return self.put(LITERAL, node, *[edit for v in values for edit in self.others(v)], records=records)
        unknown = isinstance(node, ast.Name) and not values
        is_given = any(isinstance(n, (ast.Name, ast.Subscript)) and self.is_input(n) for n in ast.walk(node))
        reads = not is_given and (unknown or any(isinstance(n, ast.Call) and READS.match(called(n)) for value in values for n in ast.walk(value)))
        if actual is not None and STRICT.match(name) and not reads:
            self.ask_both(node, actual)
        self.put(DATA if reads and self.data else VALUE, node, self.replaced(node, self.changed(node)))

    def changed(self, node):
        """A call that changes a value when the test runs."""
        return self.prefix + "mut(" + self.text(node) + ")"

    def one_of(self, left, right, name=""):
        """Alters the side of a comparison that is not the result of a call."""
        swapped = self.calls(right) and not self.calls(left)
        if name == "assertIn" and not swapped:
            return self.one_among(left, right)
        self.expected(left if swapped else right, name, right if swapped else left)

    def one_among(self, member, whole):
        """Alters what a result must be one of: the values, unless they are so many that others may be among them."""
        is_display = isinstance(whole, (ast.List, ast.Tuple, ast.Set)) and self.calls(member)
        if is_display and len(whole.elts) == 1:
            return self.one_of(member, whole.elts[0])
        self.expected(whole, "In", member, not is_display or len(whole.elts) > 4)

    def one_of_near(self, left, right, distance):
        """Alters the side of a comparison with what is near."""
        try:
            self.distance = distance()
        except (ValueError, TypeError):
            self.distance = 0
        self.one_of(left, right, "AlmostEqual")

    def calls(self, node):
        node = node.value if isinstance(node, ast.Subscript) else node
        values = self.bound(node.id) if isinstance(node, ast.Name) else [node]
        return any(isinstance(n, ast.Call) and not makes(n) for value in values for n in ast.walk(value))

    def truth(self, node):
        """Alters an expression that must be true."""
        if isinstance(node, ast.BoolOp):
            self.either |= set(ast.walk(node)) if isinstance(node.op, ast.Or) else set()
            for inner in node.values:
                self.truth(inner)
        elif isinstance(node, ast.Call) and called(node) == "all" and node.args and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
            self.truth(node.args[0].elt)
        elif self.compares(node):
            pass
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE)) and isinstance(node.left, ast.Call) and called(node.left) in ("abs", "fabs") and isinstance(node.left.args[0], ast.BinOp) and isinstance(node.left.args[0].op, ast.Sub):
            self.one_of_near(node.left.args[0].left, node.left.args[0].right, lambda: self.number(node.comparators[0]))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.Is)):
            self.one_of(node.left, node.comparators[0])
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In):
            member, whole = node.left, node.comparators[0]
            self.expected(member, "In", whole) if isinstance(member, ast.Constant) else self.one_among(member, whole)
        else:
            self.neither(node)

    def neither(self, node, wanted=True, condition="", edits=()):
        """Has what must be true, or must not, be neither, so that nothing tells which it was."""
        text, site, wanted_before = condition or self.text(node), "%s:t%d" % (self.path, self.span(node)[0]), wanted
        if not condition and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            text, wanted = self.text(node.operand), not wanted
        elif not condition and isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in CONTRARY:
            text, wanted = "(%s) %s (%s)" % (self.text(node.left), CONTRARY[type(node.ops[0])], self.text(node.comparators[0])), not wanted
        edits = list(edits or [(*self.span(node), "{}")])
        start, end, shape = edits[-1]
        put = lambda by: [*edits[:-1], (start, end, shape.format(by) if wanted_before or edits[:-1] else "not " + by)]
        if not self.record or node in self.either or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            return self.put(TRUTH, node, *put("(%s) is not bool(%s)" % (wanted, text)))
        goes_on = node not in self.caught and node not in self.lenient
        if condition.endswith(" is None") and wanted:
            self.ask(node, node, text[:-len(" is None")], [note(None)])
        elif says_nothing(parsed(text)):
            self.ask(node, node, "bool(%s)" % text, [note(wanted)])
        elif "nan" not in (self.source.decode() if self.whole else self.text(self.function)).lower():
            compared = [self.text(n) for c in ast.walk(node) if isinstance(c, ast.Compare) for n in [c.left, *c.comparators] if not isinstance(n, ast.Constant)]
            self.ask(node, node, "any(isinstance(v, float) and v != v for v in (%s,))" % ", ".join(compared), [note(False)] * bool(compared))
            self.asked.discard(node)
        self.is_open = self.is_open or node not in self.asked
        self.holds = self.holds or goes_on and self.way == "expectation"
        comparison = {"name": site, "test": self.name, "values": [note(wanted)], "lenient": node in self.lenient}
        drawn = lambda wanted: put("%struth(%r, %s, %s, %s)" % (self.prefix, site, text, wanted, goes_on))
        self.noted.append((comparison, drawn(wanted) if self.asserts and not comparison["lenient"] else []))
        if self.way in ("record", "hold"):
            self.kinds[TRUTH] += drawn(wanted if self.way == "record" else None)
        else:
            self.put(TRUTH, node, *drawn(None))

    def compares(self, node):
        """Alters what a call compares that must be true, or whose result must be so."""
        names = COMPARER
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            names, node = DIFFERENCE, node.operand
            while called(node) in ("bool", "list", "tuple") and len(node.args) == 1:
                node = node.args[0]
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.Is)):
            node, result = node.left, node.comparators[0]
            if isinstance(node, ast.Constant):
                node, result = result, node
            if not isinstance(result, ast.Constant) or result.value and result.value is not True:
                return False
            names = COMPARER if result.value else DIFFERENCE
        if not isinstance(node, ast.Call) or not names.match(called(node)) or not node.args:
            return False
        sides = node.args[:2] if len(node.args) > 1 else [node.func.value if isinstance(node.func, ast.Attribute) else node, node.args[0]]
        if all(values and all(map(self.literals, values)) for values in map(self.values, sides)):
            return False  # what it returns is what the code returns
        self.one_of(*sides, called(node))
        return True

    def call(self, node):
        name = called(node)
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        if name in RAISES and plain:
            self.ask_raised(node, plain)
            self.put(VALUE, plain[0], self.replaced(plain[0], self.prefix + "Other"))
        elif name in EQUAL and len(plain) >= 2 and len(plain) == len(node.args):
            if not self.compares(ast.Compare(plain[0], [ast.Eq()], [plain[1]])):
                self.one_of_near(*plain[:2], lambda: self.tolerance(node)) if name == "assertAlmostEqual" else self.one_of(*plain[:2], name)
        elif name in EQUAL and "_called" in name + "_any_call" and plain:
            self.expected(plain[0], name)
        elif name == "assertTrue" and plain:
            self.truth(plain[0])
        elif name == "assertFalse" and plain and self.compares(ast.UnaryOp(ast.Not(), plain[0])):
            pass
        elif name in TRUTHS and isinstance(node.func, ast.Attribute) and len(plain) == len(node.args) and len(plain) > (TRUTHS[name][0].count("{") > 1):
            (condition, wanted), end = TRUTHS[name], self.span(node.func)[1]
            count = max(1, condition.count("{"))
            span = self.span(plain[0])[0], self.span(plain[count - 1])[1]
            self.neither(node, wanted, condition.format(*map(self.text, plain[:count])), [(end - len(name), end, "assertTrue"), (*span, "{}")])
        elif HELPER.match(name) and len(plain) >= 2:
            for argument in plain:
                self.expected_of_helper(argument)
        else:
            for argument in self.compared_by_helper(node):
                self.expected_of_helper(argument)

    def expected_of_helper(self, argument):
        if any(map(self.literals, self.bound(argument.id) if isinstance(argument, ast.Name) else [argument])) and getattr(argument, "value", self) is not None:
            self.expected(argument)

    def compared_by_helper(self, call):
        """The arguments of a call that a function of the file, which is no test, compares and does nothing else with."""
        is_method = self.text(call.func) == "self." + called(call)
        found = [f for f in self.helpers if f.name == called(call) and (is_method or isinstance(call.func, ast.Name)) and not isinstance(f, ast.ClassDef)]
        if len(found) != 1 or found[0] is self.function:
            return []
        sides = asserted_sides(found[0])
        others = {n.id for n in ast.walk(found[0]) if isinstance(n, ast.Name) and n not in sides | self.told}
        parameters = [a.arg for a in found[0].args.args][is_method:]
        given = [*zip(parameters, call.args), *((k.arg, k.value) for k in call.keywords)]
        return [a for name, a in given if name in {getattr(s, "id", "") for s in sides} - others]

    def condition(self, node):
        """Alters what makes a test fail when it is true."""
        if MACHINE.search(self.text(node)):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.NotEq):
            if not self.whole or self.calls(node.left) or self.calls(node.comparators[0]):
                self.one_of(node.left, node.comparators[0])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.truth(node.operand)
        elif not self.whole:
            self.neither(node, False)

    def body(self, node):
        self.kinds, self.function, self.holds = [[], [], [], []], node, False
        # sites are where values are expected; names of a whole file may be those of several functions.
        self.sites = set() if self.whole else asserted_sides(node)
        # begins is where the first literal is expected, and whether what is returned there is noted and known.
        count, self.begins = len(self.compared), (len(self.source), True)
        # is_covered says that something is left out which is noted where the rest is as it was.
        # noted are the conditions, with the edits that note them as they are where they are those of assertions.
        self.noted, self.asserts, self.is_covered = [], True, False
        # asked are the sites that have questions; a test is_open that has others.
        self.asked, self.is_open = set(), False
        # either are what may fail since something else holds.
        self.either = set()
        # lenient are the nodes at which a comparison may fail in a test that passes.
        guards = (ast.Try, ast.With, ast.AsyncWith)
        self.lenient = {n for g in ast.walk(node) if isinstance(g, guards) and not catches_nothing(g) for n in ast.walk(g)}
        failing = {n for f in ast.walk(node) if self.is_expected_to_fail(f) for n in ast.walk(f)}
        self.lenient |= failing
        guarded = {n.id for n in self.lenient if isinstance(n, ast.Name)}
        self.lenient |= {n for f in ast.walk(node) if f is not node and getattr(f, "name", "") in guarded for n in ast.walk(f)}
        # caught are those at which a test goes on, or is not run to its end when it returns.
        self.caught = {n for g in ast.walk(node) if self.catches(g) or g is not node and getattr(g, "name", "") in guarded for n in ast.walk(g)}
        fails = lambda n: isinstance(n, ast.Raise) or isinstance(n, ast.Call) and called(n) in ("exit", "fail", "_exit")
        for inner in ast.walk(node):
            if self.whole and inner in failing:
                continue
            if isinstance(inner, ast.Assert):
                self.truth(inner.test)
            elif isinstance(inner, ast.Call):
                if called(inner) == "exit" and inner.args and isinstance(inner.args[0], ast.Compare):
                    self.condition(inner.args[0])
                self.call(inner)
            elif isinstance(inner, ast.If) and (self.whole and not self.rest or any(fails(n) for s in inner.body for n in ast.walk(s))):
                if not any(isinstance(s, (ast.Raise, ast.Expr)) and fails(getattr(s, "value", s)) for s in inner.body):
                    self.lenient |= set(ast.walk(inner.test))
                    self.caught |= set(ast.walk(inner.test))
                self.asserts = False
                self.condition(inner.test)
                self.asserts = True
        if not self.begins[1]: # which may end the test where it is altered
            for c in self.compared[count:]:
                c["listed"] = False
        found = [kind for kind in range(4) if self.kinds[kind]]
        return next(iter(found[1:] if self.rest and not self.is_covered else found), None)

    def is_expected_to_fail(self, node):
        return any("xfail" in self.text(d) or "expectedFailure" in self.text(d) for d in getattr(node, "decorator_list", []))

    def catches(self, node):
        """Whether a failure within a node may not be that of the test."""
        raises = isinstance(node, (ast.With, ast.AsyncWith)) and any(isinstance(i.context_expr, ast.Call) and called(i.context_expr) in RAISES | {"suppress"} for i in node.items)
        yields = node is self.function and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node))
        return raises or yields or self.whole or self.is_expected_to_fail(node) or bool(getattr(node, "handlers", []))

    def test(self, node, name):
        self.name = name
        if self.way == "end" and self.whole:
            start = self.starts[self.first() - 1]
            self.edits.append((start, start, self.prefix + "fail()\n"))
        elif self.way == "end":
            self.end(node)
        else:
            kind = self.body(node)
            if kind is None:
                return
            if not self.whole:
                self.check(node, self.kinds[kind])
            if kind == DATA:
                return self.left.append(name)
            if kind == TRUTH:
                self.truths.append(name)
                self.compared += [c for c, _ in self.noted]
            elif self.whole and kind == LITERAL and not self.rest and self.way != "reach":
                # Another test of the file may have nothing but conditions: they are noted, and altered with the rest.
                # Around another edit they would hide it.
                within = [e[:2] for e in self.kinds[kind]]
                beside = [(c, edits) for c, edits in self.noted if edits and not any(e[0] <= s and t <= e[1] for e in edits for s, t in within)]
                self.compared += [c for c, _ in beside]
                self.edits += [e for _, edits in beside for e in edits]
            unseen = [] if self.whole else self.unseen_calls(node)
            self.unseen += [{"test": name, "text": called(n) or "match"} for n in unseen[:1]]
            if not self.is_open and not unseen and not self.calls_after(node):
                self.answerable.append(name)
            self.edits += self.kinds[kind]
            if self.way in ("expectation", "hold") and kind in (LITERAL, TRUTH) and self.holds:
                self.end(node)
        self.tests.append(name)

    def check(self, node, edits):
        """Raises SyntaxError if a function cannot be read with edits."""
        first = min([node.lineno] + [d.lineno for d in node.decorator_list])
        text, _ = self.edited(edits, self.starts[first - 1], self.span(node)[1])
        ast.parse(b"if 1:\n" * bool(node.col_offset) + text)

    def attempt(self, node, name):
        """Alters a test, or leaves it as it is where that fails: the others are altered all the same."""
        counts = len(self.compared), len(self.questions)
        try:
            self.test(node, name)
        except Exception as e:
            self.fault = "%s: %s" % (name, e)
            del self.compared[counts[0]:], self.questions[counts[1]:]

    def calls_after(self, node):
        """Whether a test makes calls that are in none of its questions, which may compare, too."""
        last = max((n.end_lineno for n in self.asked), default=0)
        return any(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call) and n.lineno > last and not is_assertion(n) for n in ast.walk(node))

    def unseen_calls(self, function):
        """What a test gives helpers along with the code, or matches, where no comparison is known: they may compare, too."""
        imports = [s for s in [*self.tree.body, *ast.walk(function)] if isinstance(s, (ast.Import, ast.ImportFrom))]
        known = getattr(sys, "stdlib_module_names", frozenset()) | {"pytest"}
        code = {n for s in imports for n in defined(s) if (getattr(s, "module", None) or s.names[0].name).split(".")[0] not in known}
        helpers = {f.name for f in self.helpers}
        edits = [e for kind in self.kinds for e in kind]
        found = []
        for node in ast.walk(function):
            whole = node.subject if isinstance(node, getattr(ast, "Match", ())) else node.value if isinstance(node, ast.Expr) else None
            whole = whole.value if isinstance(whole, ast.Await) else whole
            call = whole
            while isinstance(getattr(call, "func", None), ast.Attribute) and isinstance(call.func.value, ast.Call):
                call = call.func.value  # the first of a chain
            if not isinstance(call, ast.Call) or is_assertion(node):
                continue
            given = ast.Tuple(call.args + [k.value for k in call.keywords])
            # Beside a value, a helper is given code that is not its own; what code is given by itself may only set it up.
            by = root(call.func)
            is_helper = by in helpers | code and names(given) & code - {by} and any(isinstance(n, ast.Constant) for n in ast.walk(given if call is whole else whole))
            start, end = self.span(node)
            if (is_helper or not isinstance(node, ast.Expr) and code & names(whole)) and not any(start <= e[0] and e[1] <= end for e in edits):
                found.append(call)
        return found

    def end(self, node):
        """Has a test fail at its end, where it has met something else than is expected or in any case."""
        start = self.at(node.lineno, node.col_offset)
        self.edits.append((start, start, "@" + self.prefix + "end\n" + " " * node.col_offset))

    def functions(self, node, name=""):
        if self.whole:
            return self.test(node, "")
        for inner in node.body:
            if isinstance(inner, ast.ClassDef):
                self.functions(inner, name + inner.name + ".")
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and (inner.name.startswith("test") or inner.name in self.names):
                self.attempt(inner, name + inner.name)

    def inherit(self, tests):
        """Adds the names that tests have in classes which inherit them in this file."""
        for inner in self.tree.body:
            if isinstance(inner, ast.ClassDef):
                own = {f.name for f in inner.body if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))}
                bases = {getattr(base, "id", "") for base in inner.bases}
                tests += [inner.name + "." + f for c, _, f in [t.partition(".") for t in tests] if c in bases and f not in own]

    def make(self):
        self.functions(self.tree)
        if self.whole and not self.tests:
            self.examples()
        if not self.whole:
            for tests in (self.tests, self.truths, self.left):
                self.inherit(tests)
        source, count = self.edited(self.edits + self.kept + self.retell(), 0, len(self.source))
        if self.prefix.encode() in source:
            source = self.with_helpers(source)
        return source.decode(), count

    def edited(self, edits, at, end):
        """Returns a part of the source with edits, and how many of them have an effect."""
        out, count = [], 0
        for start, stop, text in sorted(edits, key=lambda e: (e[0], e[0] != e[1], -e[1])):
            if start >= at and stop <= end:
                out += [self.source[at:start], text.encode()]
                at, count = stop, count + 1
        return b"".join(out) + self.source[at:end], count

    def retell(self):
        """Has comments and messages say of what is expected what it is altered to."""
        others = {}
        for start, end, text in self.edits:
            old, new = (PLAIN_LITERAL.fullmatch(t) for t in (self.source[start:end].decode(), text))
            if old and new:
                others[old[2] or old[0]] = new[2] or new[0]
        if not others:
            return []
        word = re.compile(r"\\.|%%[a-z]|\{[^{}]*\}|(?<!\w)(%s)(?!\w)" % "|".join(map(re.escape, sorted(others, key=len, reverse=True))), re.S)
        lines = [line.decode() for line in self.source.splitlines(keepends=True)]
        place = lambda row, column: self.at(row, len(lines[row - 1][:column].encode()))
        tokens = list(tokenize.generate_tokens(iter(lines).__next__))
        # A letter before the quotation mark is none of the text.
        begins = {place(*start) for kind, _, start, _, _ in tokens if kind in (tokenize.STRING, getattr(tokenize, "FSTRING_START", tokenize.STRING))}

        def replaced(start, end):
            text = self.source[start:end].decode()
            is_prefix = lambda m: start + len(text[:m.start()].encode()) in begins
            return start, end, word.sub(lambda m: m[0] if is_prefix(m) else others.get(m[1], m[0]), text)

        told = [replaced(*self.span(n)) for m in self.messages() for n in ast.walk(m) if isinstance(n, ast.JoinedStr) or isinstance(getattr(n, "value", None), str)]
        for kind, text, (row, column), _, _ in tokens:
            if kind == tokenize.COMMENT and row > 2: # the first may say how the file is encoded
                told.append(replaced(place(row, column), place(row, column) + len(text.encode())))
        return told

    def gather_told(self):
        """The nodes of what tests only say, also by a name that nothing else has."""
        told = {inner for m in self.messages() for inner in ast.walk(m)}
        told |= {inner for n in ast.walk(self.tree) if isinstance(n, ast.Call) and tells(n) for inner in ast.walk(n)}
        for function in [f for f in ast.walk(self.tree) if isinstance(f, FUNCTIONS)]:
            others = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n not in told}
            texts = [n.value for n in ast.walk(function) if isinstance(n, ast.Assign) and stored(n) and not stored(n) & others and not has_call(n.value)]
            told |= {inner for n in texts for inner in ast.walk(n)}
        return told

    def messages(self):
        """What tests say where they fail, and what describes them."""
        for n in ast.walk(self.tree):
            if isinstance(n, ast.Assert) and n.msg:
                yield n.msg
            elif isinstance(n, FUNCTIONS) and n.name.startswith("test") and ast.get_docstring(n) and ">>>" not in ast.get_docstring(n):
                yield n.body[0]
            elif isinstance(n, ast.Call) and (is_assertion(n) or called(n) in SAYS):
                before = SAYS.get(called(n), 2)
                yield from n.args[before:] + [k.value for k in n.keywords if k.arg in ("msg", "reason") or not before]

    def examples(self):
        """Alters what the examples of the documentation give."""
        import doctest  # here, as it takes longer to load than all other modules
        for node in [n.value for n in ast.walk(self.tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) and isinstance(n.value.value, str)]:
            for example in doctest.DocTestParser().get_examples(self.text(node).rstrip("'\"")):
                first = node.lineno - 1 + example.lineno + example.source.count("\n")
                start, end = self.starts[first], self.starts[first + example.want.rstrip().count("\n") + 1] - 1
                self.edits += [(start, end, self.other_text(self.source[start:end].decode()))] if example.want and self.way != "record" else []
                self.tests = [""]

    def first(self):
        """The line of the first statement that may follow others."""
        for node in self.tree.body:
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node is self.tree.body[0]
            if not docstring and getattr(node, "module", "") != "__future__":
                return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", [])])
        return 1

    def with_helpers(self, source):
        helpers = HELPERS.replace("@functools", "\0f").replace("@contextlib", "\0c").replace("@always", str(self.way == "end")).replace("@number", str(self.rng.randint(3, 97))).replace("@word", self.word)
        if self.record:
            helpers += PLAIN + RECORDS.replace("@record", repr("../" * self.path.count("/") + self.record)).replace("@holds", str(self.way == "hold"))
        # A project may demand that its tests run all of their own lines.
        helpers = re.sub(r"(?m)^((?:def|class) .*)$", r"\1  # pragma: no cover", helpers)
        helpers = helpers.replace("@", self.prefix).replace("\0f", "@functools").replace("\0c", "@contextlib")
        at = self.starts[self.first() - 1]
        return source[:at] + helpers.encode() + source[at:]


def main(request_file, report):
    with open(request_file) as f:
        request = json.load(f)
    rng, altered = random.Random(request["seed"]), []
    for file in request["files"]:
        try:
            alteration = Alteration(file["path"], file["text"], request, rng)
            text, count = alteration.make()
            compile(text, file["path"], "exec")
        except Exception as e:  # the other files are altered all the same
            altered.append({"path": file["path"], "text": "", "fault": str(e)})
            continue
        if count or alteration.left or alteration.fault:
            altered.append({"path": file["path"], "text": text, "fault": alteration.fault, "tests": alteration.tests, "truths": alteration.truths, "data": alteration.left, "count": count, "compared": alteration.compared, "questions": alteration.questions, "unseen": alteration.unseen, "answerable": alteration.answerable})
    with open(report, "w") as f:
        json.dump(altered, f)

