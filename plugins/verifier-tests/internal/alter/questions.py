# Asks code outside of its tests: a question is a program with the statements of a test that lead
# to what it compares, and neither what is expected there nor what other tests hold.

FRAMEWORK = re.compile(r"_?(pytest|unittest|mock|nose|hypothesis|doctest|conftest|testtools|ddt|parameterized|freezegun|time_machine)\b")
# What is called that makes the same for all tests.
CONSTANT = re.compile(r"(bytes|compile|date|datetime|Decimal|dict|Fraction|frozenset|len|list|Path|range|set|sorted|timedelta|tuple)$")
# What is called that compares a result with nothing.
LOOKS = re.compile(r"(isinstance|issubclass|hasattr)$")
MAX_ROWS = 50
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Unknown(Exception):
    """What a question needs is not known without a run of the tests."""


@functools.lru_cache(None)
def names(node):
    """The names that code takes from around it; an attribute of the test's class is one."""
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("self", "cls"):
        return {"self." + node.attr} if isinstance(node.ctx, ast.Load) else set()
    found = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else set()
    for inner in ast.iter_child_nodes(node):
        found |= names(inner)
    if isinstance(node, (ast.Lambda, *FUNCTIONS)):
        found -= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        found -= stored(node)
    return frozenset(found)


@functools.lru_cache(None)
def stored(node):
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def targets(statement):
    return getattr(statement, "targets", None) or [getattr(statement, "target", ast.Constant(0))]


@functools.lru_cache(None)
def defined(statement):
    """The names that a statement gives a value."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(a.asname or a.name).split(".")[0] for a in statement.names}
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return set()
    own = {"self." + n.attr for t in targets(statement) for n in ast.walk(t) if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") in ("self", "cls")}
    return {n.id for t in targets(statement) for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | own


def is_assertion(node):
    """Whether a statement or call only looks at what the code does."""
    if isinstance(node, ast.If):
        return not node.orelse and all(isinstance(s, ast.Raise) or called(getattr(s, "value", ast.Call(ast.Name(""), [], []))) in ("exit", "fail", "_exit") for s in node.body)
    node = getattr(node, "value", node) if isinstance(node, ast.Expr) else node
    return isinstance(node, ast.Assert) or isinstance(node, ast.Call) and called(node) in EQUAL | set(TRUTHS) | RAISES | {"assertTrue"}


def says_nothing(node):
    """Whether an expression that is true or not does not say with what a result is compared."""
    def is_result(n):
        return isinstance(n, ast.Call) and not makes(n)

    compares = any(isinstance(n, (ast.Compare, ast.BinOp)) for n in ast.walk(node))
    return not compares and not any(is_result(n) and not LOOKS.match(called(n)) and len(n.args) > 1 and any(is_result(i) for a in n.args for i in ast.walk(a)) for n in ast.walk(node))


def around(owner, target):
    """The blocks around a node, the outermost first: their statements, the place among them, and what they belong to."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        block = getattr(owner, name, [])
        for at, statement in enumerate(block if isinstance(block, list) else []):
            if getattr(statement, "end_lineno", target.lineno) >= target.lineno and target in ast.walk(statement):
                return [(block, at, owner if name == "body" else None)] + (around(statement, target) if target is not statement else [])
    return []


def questions(alteration, place, text, expected, count, is_bare=False):
    """The questions for what is compared at a place, one for each of so many expected values or, where one is expected in many rows, for each row."""
    try:
        return [Question(alteration, place, text, expected, row, count, is_bare) for row in range(count)]
    except Unknown as e:
        rows = e.args[0] if e.args and count == 1 else 0
    try:
        return [Question(alteration, place, text, expected, row, rows, is_bare) for row in range(min(rows, MAX_ROWS))]
    except Unknown:
        return []


@functools.lru_cache(None)
def is_test(node):
    """Whether a definition is a test, or there for tests."""
    text = " ".join(ast.dump(n) for n in node.decorator_list + getattr(node, "bases", []))
    return bool(re.search("[Tt]est|fixture|mock|patch", node.name + text)) or any(getattr(n, "name", "").startswith("test") for n in node.body)


def raises(node):
    """Whether a block must end in an error."""
    return isinstance(node, ast.With) and len(node.items) == 1 and isinstance(node.items[0].context_expr, ast.Call) and called(node.items[0].context_expr) in RAISES


class Question:
    """The program that gives what is compared in one row of several."""

    def __init__(self, alteration, place, text, expected, row, rows, is_bare):
        self.of, self.expected, self.row, self.rows = alteration, getattr(expected, "id", ""), row, rows
        # What only the expected value is made of is left out; is_bare leaves out all that is not needed.
        self.other, self.is_bare = names(expected), is_bare
        # made are the fixtures of other files.
        self.made = set()
        # steps are what calls something; what defines or changes something counts for two.
        self.steps = max({ast.Call: 1, ast.Lambda: 2}.get(type(n), 0) for n in ast.walk(parsed(text)))
        self.need, self.lines = set(names(parsed(text))), ["_answer = (" + text + ")"]
        self.is_state = not has_call(parsed(text))
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(place)):
            raise Unknown
        blocks = around(alteration.tree, place)
        if not is_bare:
            self.look(blocks[-1][0][blocks[-1][1]], place)
        for block, at, owner in reversed(blocks):
            for statement in reversed(block[:at] if alteration.whole or not isinstance(owner, (ast.Module, ast.ClassDef)) else []):
                self.step(statement)
            self.enter(owner)
        for statement in reversed([] if alteration.whole else alteration.tree.body):
            self.outer(statement)
        if self.need - set(dir(builtins)) - {"__file__"}:
            raise Unknown

    def program(self):
        return "\n".join(reversed(self.lines))

    def keep(self, statement):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) and "sys.path" not in self.of.text(statement):
            self.steps += has_call(statement) if isinstance(statement, (ast.Assign, ast.Subscript)) else 2
        start, end = self.of.span(statement)
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            start = self.of.starts[min([statement.lineno] + [d.lineno for d in statement.decorator_list]) - 1]
        self.lines.append(textwrap.dedent(self.source(start, end)))
        self.need |= names(statement)

    def source(self, start, end):
        """The source with others for the values that the code must not find."""
        text = self.of.source[start:end]
        for a, b, other in sorted({m[:2]: m for m in self.of.kept + self.of.masked}.values(), reverse=True):
            if start <= a and b <= end:
                text = text[:a - start] + other.encode() + text[b - start:]
        return text.decode()

    def give(self, name, value):
        self.need.discard(name)
        self.need |= names(value)
        self.steps += 2 * any(isinstance(n, (ast.Call, ast.Lambda)) for n in ast.walk(value))
        self.lines.append(name + " = (" + self.source(*self.of.span(value)) + ")")

    def step(self, statement):
        """Takes over a statement before the comparison, where it may have a say in it."""
        if self.is_of_other(statement):
            return
        if is_assertion(statement):
            self.look(ast.Expr(statement.test) if isinstance(statement, (ast.If, ast.Assert)) else statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            self.assign(statement)
        elif isinstance(statement, (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)):
            self.define(statement)
        elif isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
            name = called(statement.value) if isinstance(statement.value, ast.Call) else ""
            if HELPER.match(name):
                raise Unknown
            if not (name and tells(statement.value)):
                self.keep(statement)
        elif isinstance(statement, (ast.For, ast.With)):
            within = [s for s in ast.walk(statement) if isinstance(s, ast.stmt) and s is not statement]
            if (stored(statement) | self.touched(statement)) & self.need or not all(is_assertion(s) or isinstance(s, ast.With) for s in within):
                raise Unknown
        elif not isinstance(statement, (ast.Pass, ast.Expr)):
            raise Unknown

    def is_of_other(self, statement):
        """Whether a statement only puts something plain into what is expected, which nothing else has."""
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            changed, inner = root(call.func), call.args
        elif isinstance(statement, (ast.Assign, ast.AugAssign)):
            changed, inner = root(targets(statement)[0]), [statement]
        else:
            return False
        is_plain = not any(isinstance(n, ast.Call) and not makes(n) for i in inner for n in ast.walk(i))
        return is_plain and changed in self.other - self.need and self.is_only_changed(changed)

    def is_only_changed(self, name):
        """Whether a name stands for a list or dictionary of the test that nothing else has."""
        test = self.of.function
        within = [a for n in ast.walk(test) if isinstance(n, ast.Call) and not is_assertion(n) and not CONVERTER.match(called(n)) for a in n.args + n.keywords]
        within += [n for n in ast.walk(test) if isinstance(n, (ast.Lambda, *FUNCTIONS)) and n is not test]
        within += [n.value for n in ast.walk(test) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and n.value]
        is_own = all(isinstance(v, (ast.List, ast.Dict, ast.Set)) for v in self.of.bound(name) or [None])
        return is_own and not any(getattr(n, "id", "") == name for w in within for n in ast.walk(w))

    def assign(self, statement):
        given = defined(statement)
        calls = any(isinstance(n, ast.Call) and (not makes(n) or called(n) in self.need) for n in ast.walk(statement))
        changed = {root(n) for t in targets(statement) for n in ast.walk(t) if isinstance(n, (ast.Attribute, ast.Subscript)) and getattr(n.value, "id", "") not in ("self", "cls")}
        if (given | changed) & self.need or (calls or changed) and not self.is_bare and not given & self.other:
            if not isinstance(statement, ast.AugAssign):
                self.need -= given
            self.keep(statement)

    def define(self, statement, is_outer=False):
        given = defined(statement)
        registers = isinstance(statement, (*FUNCTIONS, ast.ClassDef)) and (statement.decorator_list or getattr(statement, "bases", []))
        if given & self.need or registers and not given & self.other and not (is_outer and is_test(statement)):
            if isinstance(statement, (ast.Import, ast.ImportFrom)) and FRAMEWORK.match(getattr(statement, "module", None) or statement.names[0].name):
                raise Unknown
            self.need -= given
            self.keep(statement)
            self.need -= {statement.name} if isinstance(statement, FUNCTIONS) else set()  # it may call itself

    def look(self, node, place=None):
        """Makes the calls of another comparison, or of this one before the place, which may change what the code keeps."""
        for call in ast.iter_child_nodes(node):
            is_before = not place or hasattr(call, "lineno") and self.of.span(call)[1] <= self.of.span(place)[0]
            is_whole = isinstance(call, (ast.Await, ast.Call, ast.Subscript, ast.ListComp, ast.SetComp, ast.DictComp)) and not is_assertion(call)
            reads = isinstance(call, ast.Subscript) and names(call) & self.local()
            # What is read or made before may have changed what something holds when it is asked.
            changes = self.is_state and not place and (isinstance(call, (ast.Attribute, ast.Call)) or isinstance(call, ast.Compare) and isinstance(call.ops[0], (ast.In, ast.NotIn)))
            if is_before and (changes and names(call) - set(dir(builtins)) or is_whole and (reads or any(isinstance(n, ast.Call) and not makes(n) for n in ast.walk(call)))):
                self.keep(call)
            elif not isinstance(call, ast.Lambda):  # which what must fail calls
                self.look(call, place)

    def local(self):
        """The names that are the test's own."""
        parameters = {a.arg for a in getattr(getattr(self.of.function, "args", None), "args", [])}
        return parameters.union(*(defined(s) for s in ast.walk(self.of.function) if s is not self.of.function and isinstance(s, ast.stmt)))

    def touched(self, block):
        """What a block may change each time that it runs."""
        local = self.local()
        return {n for c in ast.walk(block) if isinstance(c, ast.Call) for n in names(c) & local} - stored(block)

    def enter(self, owner):
        """Gives what a block has from what it lies in."""
        if isinstance(owner, ast.For):
            if self.touched(owner) & self.need:
                raise Unknown
            self.bind(owner.target, self.of.items(owner.iter))
        elif isinstance(owner, FUNCTIONS):
            self.call(owner)
            if isinstance(owner, ast.AsyncFunctionDef):
                self.lines.append("import asyncio; await asyncio.sleep(0)")
        elif isinstance(owner, ast.ClassDef):
            self.make(owner)
        elif not isinstance(owner, ast.Module) and not is_subtest(owner) and not raises(owner):
            raise Unknown

    def bind(self, target, values):
        """Gives the names of a target what they are in this row, which must be that of what is expected."""
        given = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        for name in sorted(given & self.need):
            rows = self.of.members(target, name, values)
            if len(rows) != self.rows or not hasattr(rows[self.row], "lineno") or self.rows > 1 and self.expected and self.expected not in given:
                raise Unknown(len(rows))
            self.give(name, rows[self.row])

    def call(self, function):
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and called(decorator) == "parametrize" and len(decorator.args) > 1:
                given = [ast.Name(n, ast.Store()) for n in parameter_names(decorator)]
                rows = [ast.Tuple(v.args) if isinstance(v, ast.Call) and called(v) == "param" else v for v in self.of.items(decorator.args[1])]
                self.bind(ast.Tuple(given) if len(given) > 1 else given[0], rows)
            elif "mark." not in self.of.text(decorator):
                raise Unknown
        for argument in function.args.args:
            if argument.arg in self.need:
                self.fixture(argument.arg)

    def fixture(self, name):
        fixtures = [n for n in self.of.tree.body if isinstance(n, ast.FunctionDef) and n.name == name and any("fixture" in self.of.text(d) for d in n.decorator_list)]
        if not any(getattr(n, "name", "") == name for n in ast.walk(self.of.tree)):
            return self.shared(name)
        values = self.of.fixture(name)
        last = getattr(fixtures[0].body[-1], "value", None) if len(fixtures) == 1 else None
        if len(values) != 1 or values[0] not in (last, getattr(last, "value", None)):
            raise Unknown
        self.give(name, values[0])
        for statement in reversed(fixtures[0].body[:-1]):
            self.step(statement)
        for argument in fixtures[0].args.args:
            if argument.arg in self.need:
                self.fixture(argument.arg)

    def shared(self, name):
        """Gives what a fixture of a conftest.py does, the nearest first, where that needs no more than the file has."""
        tree = next((t for t in self.of.conftests() if any(getattr(n, "name", "") == name for n in t.body)), ast.Module([], []))
        at = next((i for i, n in enumerate(tree.body) if isinstance(n, ast.FunctionDef) and n.name == name), None)
        function = tree.body[at] if at is not None else None
        if not function or [ast.unparse(d) for d in function.decorator_list] not in (["pytest.fixture"], ["fixture"], ["pytest.fixture()"]):
            raise Unknown
        yields = [n for n in ast.walk(function) if isinstance(n, (ast.Yield, ast.YieldFrom))]
        if yields and yields != [getattr(function.body[-1], "value", None)]:
            raise Unknown
        function.decorator_list, asked = [], [a.arg for a in function.args.args]
        made = "%s(%s)" % (name, ", ".join(asked))
        self.lines += [name + " = " + ("next(%s)" % made if yields else made), ast.unparse(function)]
        self.steps += 2
        need = names(function) - set(dir(builtins))
        for statement in reversed(tree.body[:at]):
            if defined(statement) & need:
                self.outside(statement)
                need = (need - defined(statement)) | names(statement) - set(dir(builtins))
        self.need = self.need - {name} | set(asked)
        self.made.add(name)
        if need or set(asked) & self.made:  # it would be made twice
            raise Unknown
        for argument in asked:
            if argument in self.need:
                self.fixture(argument)

    def outside(self, statement):
        """Takes over what a conftest.py has before a fixture; the test's file gives the same names nothing else."""
        if any(ast.dump(s) != ast.dump(statement) for s in self.of.tree.body if defined(s) & defined(statement)):
            raise Unknown
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and FRAMEWORK.match(getattr(statement, "module", None) or statement.names[0].name) or getattr(statement, "decorator_list", []):
            raise Unknown
        if isinstance(statement, ast.Assign):
            self.share(statement)
        self.lines.append(ast.unparse(statement))

    def make(self, owner):
        """Makes what a class of tests has before each of them."""
        if any(self.of.text(b).split(".")[-1] not in ("TestCase", "IsolatedAsyncioTestCase", "object") for b in owner.bases) or any("mark." not in self.of.text(d) for d in owner.decorator_list):
            raise Unknown
        methods = {f.name: f.body for f in owner.body if isinstance(f, FUNCTIONS)}
        if {"setUpClass", "setup_class"} & set(methods):
            raise Unknown
        for name in ("asyncSetUp", "setUp", "setup_method"):
            for statement in reversed(methods.get(name, [])):
                self.step(statement)
        for statement in reversed(owner.body):
            name = "self." + getattr(targets(statement)[0], "id", "")
            if isinstance(statement, ast.Assign) and name in self.need:
                self.share(statement)
                self.give(name, statement.value)
        if any(n.startswith("self") for n in self.need):
            raise Unknown
        self.lines.append("import types; self = cls = types.SimpleNamespace()")

    def outer(self, statement):
        """Takes over what a module has before its tests."""
        if isinstance(statement, ast.FunctionDef) and (statement.name.startswith(("setUpModule", "setup_")) or any("autouse" in self.of.text(d) for d in statement.decorator_list)):
            raise Unknown
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self.keep(statement)
        elif isinstance(statement, ast.Assign) and defined(statement) & self.need:
            self.share(statement)
            self.assign(statement)
        else:
            self.define(statement, True)

    def share(self, statement):
        """Refuses what several tests may change one after the other."""
        if any(isinstance(n, ast.Call) and not CONSTANT.match(called(n)) for n in ast.walk(statement)):
            raise Unknown
