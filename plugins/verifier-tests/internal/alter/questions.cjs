// Asks code outside of its tests: a question is a program with the statements of a test that lead
// to what it compares, and neither what is expected there nor what other tests hold.

const FRAMEWORK = /^((node:)?(test|test\/.*|assert|assert\/strict)|vitest|@jest\/.*|mocha|chai|sinon|ava|tap|tape|uvu.*|expect.*|nock|mockdate|timekeeper|proxyquire|esmock|testdouble)$/;
// What is called that makes the same for all tests.
const CONSTANT = /^(require|createRequire|URL|fileURLToPath|pathToFileURL|join|resolve|dirname|freeze|Symbol|RegExp|Date|Error|BigInt|Number|String|repeat|fromEntries|keys|from|alloc)$/;
const TEST = /^(test|it|describe|suite|context|specify)$/, BEFORE = /^(before|beforeEach|beforeAll|setup)$/, AFTER = /^(after|afterEach|afterAll|teardown)$/;
const HELPER = /^_?(assert|check|expect|verify|same|equal|must|should|validate)/i;
const MAX_ROWS = 50, MAX_QUESTIONS = 500; // no more are asked
const MAX_PROGRAMS = 1 << 23; // characters of the questions of all files
const isFunction = (node) => /Function/.test(node?.type);

// Unknown is thrown where what a question needs is not known without a run of the tests.
class Unknown extends Error {}

// patternNames are the names that a pattern gives a value, or gets it from where it is assigned to.
function patternNames(pattern) {
  const found = [];
  walk.full({ type: "VariableDeclaration", kind: "let", declarations: [{ type: "VariableDeclarator", id: pattern }] }, (n, _, type) => type === "VariablePattern" && found.push(n.name));
  return found;
}

// names are those that code takes from around it.
const names = remember((node) => {
  const used = new Set(), own = new Set();
  walk.full(node, (n, _, type) => {
    if (type === "Identifier") used.add(n.name);
    if (n.type === "AssignmentExpression") for (const name of patternNames(n.left)) used.add(name);
    const given = n.type === "VariableDeclarator" ? [n.id] : isFunction(n) ? [...n.params, n.id] : /^Class/.test(n.type) ? [n.id] : n.type === "CatchClause" ? [n.param] : [];
    for (const name of given.filter(Boolean).flatMap(patternNames)) own.add(name);
  });
  return [...used].filter((name) => !own.has(name));
});

// defined are the names that a statement gives a value.
function defined(statement) {
  const inner = statement.declaration ?? statement;
  if (statement.type === "ImportDeclaration") return statement.specifiers.map((s) => s.local.name);
  if (inner.type === "VariableDeclaration") return inner.declarations.flatMap((d) => patternNames(d.id));
  return /^(Function|Class)Declaration$/.test(inner.type) && inner.id ? [inner.id.name] : []; // a default export may have none
}

// directCalls are the outermost calls that code makes itself, not in a function of it.
const directCalls = remember((node) => {
  const found = [];
  walk.recursive(node, null, { ...Object.fromEntries(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"].map((type) => [type, () => {}])), ...Object.fromEntries(["CallExpression", "NewExpression", "TaggedTemplateExpression", "ImportExpression", "AwaitExpression"].map((type) => [type, (n) => found.push(n)])) });
  return found;
});

// isPlain is whether code that is given a value cannot change it.
const isPlain = ({ type, operator }) => /^(Literal|TemplateLiteral|UnaryExpression|UpdateExpression)$/.test(type) || /^([-+*/%&|^]|<<|>>>?|\*\*)=$/.test(operator);
const called = (node) => (node.callee ? nameOf(node) || (node.callee.type === "FunctionExpression" ? "function" : "") : node.type);
const makes = (node) => directCalls(node).every((n) => CONSTANT.test(called(n)) && n.arguments.every(makes));

// frameworkOf returns what kind of function of the framework a call gives a function to, or "".
function frameworkOf(node) {
  if (node?.type === "AwaitExpression") return frameworkOf(node.argument);
  if (node?.type !== "CallExpression") return "";
  let { callee } = node;
  if (callee.type === "CallExpression") callee = callee.callee; // test.each(...)(...)
  const all = [callee.name, callee.property?.name, callee.object?.name];
  if (!all.some((name) => TEST.test(name) || BEFORE.test(name) || AFTER.test(name))) return "";
  if (all.some((name) => BEFORE.test(name))) return "before";
  if (all.some((name) => AFTER.test(name))) return "after";
  return all.some((name) => /^(describe|suite|context)$/.test(name)) ? "suite" : "test";
}
const bodyOf = (call) => call.arguments.findLast(isFunction);

// lookOf returns what an assertion looks at, or undefined where a call is none.
function lookOf(node, source) {
  if (node.type !== "CallExpression") return undefined;
  const { callee, arguments: given } = node;
  const chain = callee.object && given.length > 0 && (CHAINED.test(nameOf(node)) || nameOf(node) === "property") && chainOf(callee.object);
  if (chain) return [chain.actual];
  let root = callee;
  while (root.type === "MemberExpression" || root.type === "CallExpression") {
    if (root.type === "CallExpression" && root.callee.name === "expect") return root.arguments.slice(0, 1);
    root = root.type === "MemberExpression" ? root.object : root.callee;
  }
  const name = nameOf(node), isAssert = /^(t\.)?assert\b/.test(source(callee));
  if (RAISES.has(name) || /^doesNot(Throw|Reject)$/.test(name)) return isAssert || !callee.object ? given.slice(0, 1) : undefined;
  if (isAssert && name === "fail") return [];
  const looksAtSecond = given.length > 1 && EQUAL.test(name) && given[0].type !== "Identifier" && directCalls(given[0]).length === 0 && !(given[0].type === "MemberExpression" && directCalls(given[1]).length === 0);
  if (isAssert || (!callee.object && (/^(ok|ifError|match|doesNotMatch)$/.test(name) || (EQUAL.test(name) && given.length > 1)))) return looksAtSecond ? [given[1]] : given.slice(0, 1);
  return undefined;
}

// Questions makes those of a file.
class Questions {
  static size = 0; // of the programs of all files
  // of has the file's path, text and nodes, how values are found, and whether a file is one test.
  constructor(of) {
    Object.assign(this, of, { all: [], seen: new Map() });
    this.isModule = this.nodes.some((n) => /^(Import|Export).*Declaration$/.test(n.type));
    this.hollow = new Map();
    this.parents = new Map();
    walk.fullAncestor(this.nodes.at(-1), (n, _, above) => this.parents.set(n, above.at(-2)));
    this.suites = new Set(this.nodes.filter((n) => n.type === "CallExpression" && frameworkOf(n) === "suite").map(bodyOf));
    this.locals = new Set(this.nodes.flatMap((n) => (n.type === "VariableDeclarator" ? patternNames(n.id) : isFunction(n) ? n.params.flatMap(patternNames) : [])));
    // handed are the names of what calls are given.
    this.handed = new Set(this.nodes.flatMap((n) => (n.type === "CallExpression" && !lookOf(n, this.source) ? n.arguments.filter((a) => !isFunction(a)).flatMap(names) : [])).filter((name) => this.locals.has(name)));
    this.functions = new Map(this.nodes.filter((n) => (n.type === "FunctionDeclaration" && n.id) || (n.type === "VariableDeclarator" && isFunction(n.init))).map((n) => [n.id.name, n]));
  }

  // begin begins with a test. leaves are how many comparisons it was seen to have; it isOpen where one
  // of them has no question. Of the others asked is the last place.
  begin(test, scope, lenient, collects) {
    Object.assign(this, { test, scope, lenient, collects, leaves: 0, isOpen: false, asked: -1 });
    if (collects) this.seen.set(scope, []);
    else this.hollow = this.hollowOf(this.seen.get(scope) ?? []);
  }

  // compared has what is compared with an expected value asked, where the actual one is known.
  compared(node, actual, values, mode) {
    this.leaves++;
    if (this.collects) return this.seen.get(this.scope).push({ node, values });
    if (this.isFull()) return (this.isOpen = true);
    const isKnown = actual?.start !== undefined && !this.lenient.has(node);
    let notes = [];
    try {
      notes = values.map((v) => (mode instanceof Array ? note(stepOf(valueOf(v), mode)) : note(valueOf(v), mode === "loose")));
    } catch {
      notes = [];
    }
    // Where a test lies is known there alone.
    if (notes.some((one) => one.includes(this.path.split("/").at(-1)))) return this.tell(node, []);
    const answers = isKnown && notes.length > 0 ? this.about(actual, mode, node, values) : [];
    if (answers.length > 0) return this.tell(node, answers.map((q, i) => ({ program: q.program(), alone: q.steps < 2, value: notes[i % notes.length] })));
    const both = isKnown && notes.length < 2 && this.both(actual, node, mode);
    return this.tell(node, both ? [{ program: both.answers.program(), alone: both.answers.steps < 2, expected: both.wanted.program() }] : []);
  }

  isFull() {
    return (this.whole && this.all.length > MAX_QUESTIONS) || Questions.size > MAX_PROGRAMS;
  }

  // truth has asked whether something is so, unless that says with what a result is compared.
  truth(node, wanted) {
    this.leaves++;
    if (this.collects) return;
    if (this.isFull()) return void (this.isOpen = true);
    const says = (n) => n.regex || (n.type === "BinaryExpression" && n.operator !== "instanceof") || (n.type === "CallExpression" && n.arguments.length > 1 && n.arguments.some((a) => some(a, (i) => i.type === "CallExpression")));
    const answers = this.lenient.has(node) || some(node, says) ? [] : this.about(node, "truth", { type: "Literal", start: node.end, end: node.end }, [node]);
    this.tell(node, answers.map((q) => ({ program: q.program(), alone: q.steps < 2, value: "=" + wanted })));
  }

  tell(site, found) {
    if (found.length > 0) this.asked = Math.max(this.asked, site.end);
    else this.isOpen = true;
    for (const { program, expected = "" } of found) Questions.size += program.length + expected.length;
    this.all.push(...found.map((q) => ({ file: this.path, test: this.test, ...q })));
  }

  // hollowOf are the places of what only the comparisons of a test need.
  hollowOf(seen) {
    const own = new Set(seen.map(({ node }) => node.start));
    const key = (n) => (n.computed ? this.source(n) : n.property.name);
    const isUsed = (node) => node.type === "MemberExpression" && some(this.scope, (n) => n.type === "MemberExpression" && key(n) === key(node) && !own.has(n.start));
    return new Map(seen.filter(({ node }) => !isUsed(node)).flatMap(({ values }) => values.filter((v) => v.start !== undefined).map((v) => [v.start, v.end])));
  }

  // isWhole is whether all that a test compares has questions.
  isWhole() {
    return this.asked >= 0 && !this.isOpen && !some(this.scope, (n) => n.type === "ExpressionStatement" && this.isElse(n));
  }

  // isElse is whether a statement of a test is something else than what is asked, or comes before it.
  isElse(statement) {
    let { expression } = statement;
    if (expression.type === "AwaitExpression") ({ argument: expression } = expression);
    if (expression.type !== "CallExpression") return !/^(Assignment|Update|Unary)Expression$|^Literal$/.test(expression.type);
    if (lookOf(expression, this.source) || frameworkOf(expression) !== "") return false;
    return statement.start > this.asked || HELPER.test(nameOf(expression)) || this.isOwnCheck(expression);
  }

  // about returns the questions for what is compared at a place: one for each of so many expected
  // values or, where one is expected in many rows, for each row. mode is how it is compared.
  about(place, mode, expected, values) {
    const make = (row, rows) => new Question(this, place, mode, expected, { row, rows });
    try {
      return values.map((_, row) => make(row, values.length));
    } catch (e) {
      if (!(e instanceof Unknown)) throw e;
      if (values.length > 1 || !e.rows) return [];
      try {
        return Array.from({ length: Math.min(e.rows, MAX_ROWS) }, (_, row) => make(row, e.rows));
      } catch (again) {
        if (!(again instanceof Unknown)) throw again;
        return [];
      }
    }
  }

  // both returns the programs for both sides of a comparison, each where the other is not, in all rows of
  // a loop, or nothing. Which is bare has nothing that it does not need.
  both(actual, expected, mode) {
    const { hollow } = this;
    try {
      this.hollow = new Map();
      const wanted = new Question(this, expected, mode, actual, { isLoop: true, isBare: true });
      this.hollow = hollow;
      // What the test reckons with may be what the code is to change.
      const isShared = [...wanted.needed].some((name) => this.handed.has(name) && !(this.bound({ name }).length > 0 && this.bound({ name }).every(isPlain)));
      const answers = new Question(this, actual, mode, expected, { isLoop: true });
      if (isShared || mode === "part") [wanted.mode, answers.mode] = ["", "part"];
      return { wanted, answers };
    } catch (e) {
      if (!(e instanceof Unknown)) throw e;
      return undefined;
    } finally {
      this.hollow = hollow;
    }
  }

  // written is the text of a node without what it says of what is expected.
  written(node, edits = []) {
    const assertions = [];
    walk.fullAncestor(node, (n, _, above) => {
      const looked = lookOf(n, this.source);
      if (looked) assertions.push([n, looked]);
      // Code that calls a function may go by its failure, and so does what catches one.
      if (looked && above.some((a, i) => a !== node && ((isFunction(a) && !(above[i - 1].callee && nameOf(above[i - 1]) === "forEach")) || (a.type === "TryStatement" && a.handler)))) throw new Unknown();
      if (this.hollow.has(n.start) && this.hollow.get(n.start) === n.end) edits.push([n.start, n.end, "undefined"]);
    });
    for (const [n, looked] of assertions) edits.push([n.start, n.end, this.looked(looked)]);
    edits.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    let out = "", at = node.start;
    for (const [start, end, to] of edits) {
      if (start < at || end > node.end) continue;
      out += this.text.slice(at, start) + to;
      at = end;
    }
    return out + this.text.slice(at, node.end);
  }

  // looked makes the calls in what an assertion looks at, which may change what the code keeps, and reads
  // what it reads where a question asksState: it asks what something holds.
  looked(nodes) {
    const isWhole = (n) => /^(Call|New|Await)Expression$/.test(n.type) || (this.asksState && n.type === "MemberExpression");
    const parts = nodes.flatMap((n) => (isFunction(n) ? [`_try(${this.written(n)})`] : isWhole(n) ? [this.written(n)] : directCalls(n).map((c) => this.written(c))));
    return parts.length > 0 ? `(${parts.join(", ")})` : "undefined";
  }

  // isOwnCheck is whether a call is of a function of the file that fails by itself.
  isOwnCheck(call) {
    const f = call.type === "CallExpression" && this.functions.get(call.callee.name);
    return Boolean(f) && some(f, (n) => n.type === "ThrowStatement" || lookOf(n, this.source) !== undefined);
  }
}

// Question is the program that gives what is compared in one row of several.
class Question {
  constructor(of, place, mode, expected, { row, rows, isLoop = false, isBare = false }) {
    Object.assign(this, { of, mode, row, rows, isLoop, isBare, other: new Set(names(expected)) });
    // steps are what calls something; what defines or changes something counts for two.
    this.steps = some(place, isFunction) ? 2 : Number(directCalls(place).length > 0);
    of.asksState = directCalls(place).length === 0;
    this.need = new Set(names(place));
    this.needed = new Set(this.need);
    this.lines = [`_answer((${of.written(place)}), _mode);`];
    this.imports = [];
    const above = [];
    for (let n = of.parents.get(place); n; n = of.parents.get(n)) above.push(n);
    if (!isBare) this.look(above, place);
    const hooks = above.flatMap((n) => n.body ?? []).filter((s) => s.type === "ExpressionStatement" && frameworkOf(s.expression) === "before").map((s) => s.expression.argument ?? s.expression);
    for (const [i, owner] of above.entries()) this.enter(owner, above[i + 1], above[i - 1] ?? place, hooks);
    for (const name of this.need) if (!(name in globalThis) && !(/^(require|__dirname|__filename)$/.test(name) && !of.isModule)) throw new Unknown(name);
  }

  program() {
    const file = JSON.stringify("/" + this.of.path.split("/").at(-1));
    const given = this.of.isModule ? {} : { require: "_createRequire(import.meta.url)", __dirname: "_dirname", __filename: `_dirname + ${file}` };
    const header = Object.keys(given).filter((name) => this.need.has(name)).map((name) => `const ${name} = ${given[name]};`);
    return [...this.imports.map((line) => line.replace(/\s*\n\s*/g, " ")), `const _mode = ${JSON.stringify(this.mode)};`, ...header, ...this.lines].join("\n");
  }

  keep(node, text = this.of.written(node)) {
    const isImport = node.type === "ImportDeclaration" || some(node, (n) => n.type === "CallExpression" && nameOf(n) === "require");
    this.steps += isImport ? 0 : node.type === "VariableDeclaration" && !some(node, isFunction) ? Number(directCalls(node).length > 0) : 2;
    this.take(this.namesIn(node));
    if (node.type === "ImportDeclaration") this.imports.unshift(text);
    else this.lines.unshift(text.replace(/;*$/, ";"));
  }

  // namesIn are those that the text of a node takes, without its assertions.
  namesIn(node) {
    const text = this.of.written(node);
    return names(parse(node.type.endsWith("Statement") || node.type.endsWith("Declaration") ? text : `(${text})`));
  }

  take(all) {
    for (const name of all) this.need.add(name), this.needed.add(name);
  }

  give(target, value) {
    for (const name of patternNames(target)) this.need.delete(name);
    this.take(names(value));
    this.steps += 2 * some(value, (n) => n.type === "CallExpression" || isFunction(n));
    this.lines.unshift(`const ${target.name} = ${this.of.written(value)};`);
  }

  needs(all) {
    return all.some((name) => this.need.has(name));
  }

  // look makes the calls of the comparison that come before the place.
  look(above, place) {
    const call = above.find((n) => lookOf(n, this.of.source));
    for (const other of call ? lookOf(call, this.of.source) : []) {
      if (other.start < place.start && !within(place, other)) this.lookAt(this.of.looked([other]));
    }
  }

  lookAt(text) {
    if (/^(await )?\(?undefined\)?$/.test(text)) return;
    this.steps += 2;
    this.take(names(parse(`async () => ${text}`)).filter((name) => name !== "_try"));
    this.lines.unshift(text + ";");
  }

  // step takes over a statement before the comparison, where it may have a say in it.
  step(statement, isOuter) {
    switch (statement.type) {
      case "EmptyStatement":
        return undefined;
      case "ImportDeclaration":
      case "FunctionDeclaration":
      case "ClassDeclaration":
      case "ExportNamedDeclaration":
        return this.define(statement);
      case "VariableDeclaration":
        return this.assign(statement, isOuter);
      case "ExpressionStatement":
        return this.express(statement, isOuter);
    }
    const changed = this.touched(statement);
    if (some(statement, (n) => frameworkOf(n) !== "")) return !isOuter && this.needs(changed) ? this.refuse() : undefined;
    return this.needs(changed) ? (isOuter ? this.refuse() : this.keep(statement)) : undefined;
  }

  refuse(rows = 0) {
    throw Object.assign(new Unknown(), { rows });
  }

  // touched are the names of things that a statement may change.
  touched(statement) {
    const found = [];
    walk.full(statement, (n) => {
      if (n.type === "AssignmentExpression") found.push(...names(n.left), ...(/Pattern|Identifier/.test(n.left.type) ? patternNames(n.left) : []));
      if (n.type === "UpdateExpression") found.push(...names(n.argument));
      if (n.type === "CallExpression") found.push(...[...n.arguments, ...(n.callee.object ? [n.callee.object] : [])].flatMap(names));
    });
    return found.filter((name) => this.of.locals.has(name));
  }

  define(statement) {
    const given = defined(statement);
    const isFramework = statement.type === "ImportDeclaration" && FRAMEWORK.test(statement.source.value);
    if (isFramework || !(this.needs(given) || (statement.type === "ImportDeclaration" && given.length === 0))) return;
    for (const name of given) this.need.delete(name);
    this.keep(statement.declaration ?? statement);
  }

  assign(statement, isOuter) {
    const given = defined(statement);
    if (statement.declarations.some((d) => d.init && some(d.init, (n) => n.type === "CallExpression" && nameOf(n) === "require" && FRAMEWORK.test(n.arguments[0]?.value)))) return;
    const isMade = makes(statement);
    if (!this.needs(given) && (isOuter || isMade || this.isBare || given.some((name) => this.other.has(name)))) return;
    if (isOuter && !isMade) this.refuse(); // what several tests may change one after the other
    for (const name of given) this.need.delete(name);
    this.keep(statement);
  }

  express(statement, isOuter) {
    let { expression } = statement;
    const kind = frameworkOf(expression);
    if (kind !== "") return isOuter || kind !== "test" ? undefined : this.needs(this.touched(statement)) ? this.refuse() : undefined;
    const looked = lookOf(expression.type === "AwaitExpression" ? expression.argument : expression, this.of.source);
    if (looked) return this.isBare && !this.needs(this.touched(statement)) ? undefined : this.lookAt(this.of.written(expression));
    if (expression.type === "AwaitExpression") expression = expression.argument;
    if (expression.type === "CallExpression") {
      if (/^(t|ctx|context)\.(plan|diagnostic|after|afterEach|skip|todo)$|^console\.\w+$/.test(this.of.source(expression.callee))) return undefined;
      if (HELPER.test(called(expression)) || this.of.isOwnCheck(expression)) this.refuse();
    }
    if (/^(Literal|Identifier)$/.test(expression.type) || this.isOfOther(expression)) return undefined;
    const isOther = /^(Assignment|Update|Unary)Expression$/.test(expression.type) && (expression.left ?? expression.argument).type === "MemberExpression";
    const isNeeded = this.needs(this.touched(statement)) || isOther || directCalls(expression).length > 0;
    return isNeeded && !(this.isBare && !this.needs(this.touched(statement))) ? this.keep(statement) : undefined;
  }

  // isOfOther is whether code only puts something plain into what is expected, which nothing else has.
  isOfOther({ type, left, right, callee, arguments: given }) {
    const target = type === "AssignmentExpression" ? left : callee;
    let root = target;
    while (root?.type === "MemberExpression") root = root.object;
    const isPlain = target !== root && (given ?? [right]).every(makes);
    return isPlain && this.other.has(root.name) && !this.need.has(root.name) && this.isOnlyChanged(root.name);
  }

  // isOnlyChanged is whether a name stands for a list or object of the test that nothing else has.
  isOnlyChanged(name) {
    const { scope, nodes, handed } = this.of, made = this.of.bound({ name });
    const inner = nodes.filter((n) => n !== scope && within(n, scope)).map((n) => (isFunction(n) ? n.body : n.type === "VariableDeclarator" ? n.init : n.type === "AssignmentExpression" ? n.right : undefined));
    return made.length > 0 && made.every((v) => /^(Array|Object)Expression$/.test(v.type)) && !handed.has(name) && !inner.some((n) => n && names(n).includes(name));
  }

  // enter gives what a block has from what it lies in.
  enter(owner, outer, inner, hooks) {
    if (owner.type === "Program" || owner.type === "BlockStatement") return this.block(owner, outer, inner);
    if (this.isLoop && /^For/.test(owner.type) && owner.body === inner) return this.loop(owner);
    if (owner.type === "ForOfStatement" && owner.body === inner) return this.bind(owner.left.declarations?.[0]?.id ?? this.refuse(), this.of.items(owner.right));
    if (isFunction(owner)) {
      const kind = outer?.type === "CallExpression" && bodyOf(outer) === owner ? frameworkOf(outer) || nameOf(outer) : "";
      if (EACH.test(kind) && outer.callee.object && owner.params.length === 1) return this.bind(owner.params[0], this.of.items(outer.callee.object));
      if (kind !== "test" && kind !== "suite") this.refuse();
      if (this.needs(owner.params.flatMap(patternNames)) || outer.callee.type === "CallExpression") this.refuse();
      if (kind === "test" && !this.isHooked) for (const hook of hooks.toReversed()) this.hook(hook);
      this.isHooked ||= kind === "test";
    }
    if (/^(Try|While|DoWhile|For|ForIn|Switch|Labeled|With)Statement$|^CatchClause$/.test(owner.type) || (/^(If|Conditional)/.test(owner.type) && owner.test !== inner)) this.refuse();
    return undefined;
  }

  // loop repeats what is asked as the test does.
  loop(owner) {
    const parts = [owner.init, owner.test, owner.update, owner.left, owner.right].filter(Boolean);
    if (owner.type === "ForStatement" && !owner.update) this.refuse();
    for (const name of parts.flatMap(defined)) this.need.delete(name);
    this.take(parts.flatMap(names));
    for (const name of parts.flatMap(defined)) this.need.delete(name);
    this.steps += 2;
    this.lines = [this.of.text.slice(owner.start, owner.body.start) + "{", ...this.lines, "}"];
  }

  hook(call) {
    const f = bodyOf(call);
    if (!f || f.params.length > 0) this.refuse();
    if (this.isBare && !this.needs(this.touched(f))) return;
    this.keep(f, `await (${this.of.written(f)})()`);
  }

  block(owner, outer, inner) {
    // Those of suites and modules run to their end before the first test.
    const isOuter = !this.of.whole && (owner.type === "Program" || this.of.suites.has(outer));
    const at = owner.body.indexOf(inner);
    if (at < 0) this.refuse();
    for (const statement of (isOuter ? owner.body.filter((s) => s !== inner) : owner.body.filter((s, i) => i < at || (i > at && s.type === "FunctionDeclaration"))).toReversed()) this.step(statement, isOuter);
    if (owner.type === "BlockStatement") this.lines = ["{", ...this.lines, "}"];
  }

  // bind gives the names of a pattern what they are in this row, which must be that of what is expected.
  bind(target, values) {
    for (const name of patternNames(target).filter((n) => this.need.has(n))) {
      const rows = this.of.members(target, name, () => values);
      const isOfRow = patternNames(target).some((n) => this.other.has(n));
      if (rows.length !== this.rows || rows[this.row].start === undefined || (this.rows > 1 && this.other.size > 0 && !isOfRow)) this.refuse(rows.length);
      this.give({ type: "Identifier", name, start: 0, end: 0 }, rows[this.row]);
    }
  }
}
