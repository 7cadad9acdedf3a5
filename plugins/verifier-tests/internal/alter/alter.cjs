// Alters what tests in JavaScript expect, by the syntax tree. See package alter.
"use strict";
const fs = require("node:fs");
const acorn = require("internal/deps/acorn/acorn/dist/acorn");
const walk = require("internal/deps/acorn/acorn-walk/dist/walk");

const [requestFile, report] = process.argv.slice(2);
const request = JSON.parse(fs.readFileSync(requestFile, "utf8"));
let seed = Number(BigInt(request.seed) % 2147483647n) || 1;
const draw = (n) => (seed = (seed * 48271) % 2147483647) % n;
const word = () => Array.from({ length: 6 }, () => "abcdefghijklmnopqrstuvwxyz"[draw(26)]).join("");

const EQUAL = /^((not)?(Deep)?(Strict)?Equal|equals?|strictEqual|deepEqual|deepStrictEqual|partialDeepStrictEqual|same|is|eq|eql|include|toBe|toEqual|toStrictEqual|toContain|toHaveLength|toMatchObject|toBeCloseTo)$/;
// What ends a chain of words that compares.
const CHAINED = /^(equals?|eq|eqls?|is|same|sameAs|equalTo|isEqualTo|includes?|contains?|members|lengthOf|length|closeTo|string)$/;
const COMPARER = /^_*(is)?(eq|equals?|equalTo|same|sameAs|identical|isDeepStrictEqual|startsWith|endsWith|includes)$/i;
// What functions are called that return nothing, or 0, where their arguments are the same.
const DIFFERENCE = /^_*(\w+_)?(cmp|compare(To)?|diff(erence|erences)?|mismatch(es)?)_*$/i;
const INVERSE = { notEqual: "equal", notStrictEqual: "strictEqual", notDeepEqual: "deepEqual", notDeepStrictEqual: "deepStrictEqual", match: "doesNotMatch", doesNotMatch: "match" };
const RAISES = new Set(["throws", "rejects"]);
const READS = /^(read|load|open)/i;
const isReading = (n) => n.type === "CallExpression" && (READS.test(nameOf(n)) || (nameOf(n) === "require" && /\.json$/.test(n.arguments[0]?.value)));
// What methods are called that go through all of a list.
const EACH = /^(forEach|every)$/;
// tableOf is the table of a call that makes a test of each of its rows.
const tableOf = ({ type, callee }) => type === "CallExpression" && callee.type === "CallExpression" && nameOf(callee) === "each" && callee.arguments[0];
const MACHINE = /\b(argv|env|platform|version|versions)\b/;
// The kinds of alterations, the best first, as in alter.py.
const LITERAL = 0, DATA = 1, VALUE = 2, TRUTH = 3;

// What is called that compares with a part, or with what is near.
const PART = /(include|contain|startsWith|endsWith|match|closeTo)/i;
// Calls that compare what they are given, or say it.
const COMPARES = RegExp(`${PART.source}|equal|^(assert|check|expect|same)|^(test|it|describe|log|error|warn|fail|entries|keys|values)$`, "i");
function alter({ path, text: written }) {
  const text = withoutTypes(path, written);
  const comments = [];
  const tree = parse(text, (isBlock, _, start, end) => comments.push([start + 2, isBlock ? end - 2 : end]));
  const prefix = "_" + word() + "_";
  const fail = prefix + "fail()";
  const source = (node) => text.slice(node.start, node.end);
  const nodes = [];
  walk.full(tree, (node) => nodes.push(node));
  // What a framework exports for tests is called test here, whatever name the file gives it.
  const isFramework = (n) => /^(tape|tap|ava|node:test)$/.test(n?.value);
  const testers = nodes.flatMap((n) => {
    if (n.type === "ImportDeclaration" && isFramework(n.source)) return n.specifiers.filter((s) => s.type === "ImportDefaultSpecifier").map((s) => s.local.name);
    return n.type === "VariableDeclarator" && n.init?.type === "CallExpression" && nameOf(n.init) === "require" && isFramework(n.init.arguments[0]) ? [n.id.name] : [];
  });
  for (const { type, callee, arguments: given } of nodes) if (type === "CallExpression" && testers.includes(callee.name) && given.some(isFunction)) callee.name = "test";
  // blocks are those that define names, an inner one after the outer.
  const definedBy = (n) => (n?.type === "VariableDeclaration" ? defined(n) : []);
  const isEach = (n) => n.type === "CallExpression" && n.callee.object && EACH.test(nameOf(n)) && n.arguments[0]?.params;
  const blocks = nodes.map((node) => ({ node, given: isEach(node) ? node.arguments[0].params.flatMap(patternNames) : [].concat(node.body, node.left, node.init).flatMap(definedBy) })).filter(({ given }) => given.length > 0).sort((a, b) => a.node.start - b.node.start || b.node.end - a.node.end);

  // Where values come from.

  // literals are those that an expression is made of.
  function literals(node) {
    switch (node && node.type) {
      case "Literal":
        return node.regex || node.bigint ? [] : [node];
      case "Identifier":
        return node.name === "undefined" ? [node] : [];
      case "TemplateLiteral":
        return node.expressions.length === 0 && node.quasis[0].value.raw ? [node] : [];
      case "UnaryExpression":
        return node.operator === "-" && node.argument.type === "Literal" ? [node] : [];
      case "ArrayExpression":
        return node.elements.flatMap(literals);
      case "ObjectExpression":
        return node.properties.flatMap((p) => literals(p.value));
      case "NewExpression":
        return node.arguments.flatMap(literals);
    }
    return [];
  }
  // bound are the expressions that give a name its values, in the test, else in one around it, or
  // else outside of all tests.
  let scope = tree;
  const found = [];
  const isSeen = (n) => found.every(({ node }) => !within(n, node) || within(scope, node) || within(node, scope));
  // seenFrom are the nodes that the test, or what it lies in, may meet.
  const seenFrom = new Map();
  const seen = () => seenFrom.get(scope) ?? seenFrom.set(scope, nodes.filter(isSeen)).get(scope);
  function bound(at) {
    const block = binder(at);
    const around = found.map(({ node }) => node).filter((node) => node !== scope && within(scope, node)).sort((a, b) => a.end - a.start - (b.end - b.start));
    for (const node of [scope, ...around, tree]) {
      const values = boundIn(at.name, seen().filter((n) => within(n, node) && (!block || within(n, block))));
      if (values.length > 0) return values;
    }
    return [];
  }
  // binder is the innermost block or loop that defines the name at a place, if one does.
  const binders = new Map();
  function binder(at) {
    if (!binders.has(at)) binders.set(at, blocks.findLast(({ node, given }) => within(at, node) && given.includes(at.name))?.node);
    return binders.get(at);
  }
  function boundIn(name, nodes) {
    return nodes.flatMap((node) => {
      if (node.type === "VariableDeclarator" && node.init) return members(node.id, name, () => [node.init]);
      if (node.type === "AssignmentExpression") return members(node.left, name, () => [node.operator === "=" ? node.right : node]);
      if (node.type === "UpdateExpression") return members(node.argument, name, () => [node]);
      if (node.type === "ForOfStatement" && node.left.type === "VariableDeclaration") return members(node.left.declarations[0].id, name, () => items(node.right));
      if (node.type === "CallExpression" && node.callee.object && EACH.test(nameOf(node)) && node.arguments[0]?.params) {
        return node.arguments[0].params.slice(0, 1).flatMap((target) => members(target, name, () => items(node.callee.object)));
      }
      // A test for each row of a table has its elements as parameters.
      const table = tableOf(node);
      if (table) {
        const element = (row, i) => (row.type === "ArrayExpression" ? row.elements[i] : i === 0 && row);
        return bodyOf(node)?.params.flatMap((target, i) => members(target, name, () => items(table).map((row) => element(row, i)).filter(Boolean))) ?? [];
      }
      return [];
    });
  }
  // members are what of the values a name in a pattern takes.
  function members(target, name, values) {
    if (target.type === "Identifier") return target.name === name ? values() : [];
    if (target.type === "ArrayPattern") return target.elements.flatMap((inner, i) => (inner ? members(inner, name, () => values().map((v) => v.elements && v.elements[i]).filter(Boolean)) : []));
    if (target.type !== "ObjectPattern") return [];
    return target.properties.flatMap((p) => (p.value ? members(p.value, name, () => values().flatMap((v) => property(v, p.key.name))) : []));
  }
  function property(node, name) {
    return (node.properties || []).filter((p) => p.key && !p.shorthand && !p.method && (p.key.name || p.key.value) === name).map((p) => p.value);
  }
  function items(node) {
    if (node.type === "ArrayExpression") return node.elements.filter(Boolean);
    if (node.type === "NewExpression") return /^(Map|Set)$/.test(nameOf(node)) && node.arguments[0] ? items(node.arguments[0]) : [];
    const whole = node.type === "CallExpression" ? node.arguments[0] : node;
    if (!gathers && whole && whole.type === "Identifier" && (isInput(whole) || loopsOver(whole) > 1)) return [];
    if (node.type === "Identifier") return bound(node).filter((v) => v.type !== "Identifier").flatMap(items);
    if (node.type !== "CallExpression" || nameOf(node) !== "entries" || !node.arguments[0]) return [];
    const maps = node.arguments[0].type === "Identifier" ? bound(node.arguments[0]) : [node.arguments[0]];
    return maps.flatMap((m) => (m.properties || []).map((p) => ({ elements: [p.key && p.key.type === "Literal" && p.key, p.value] })));
  }
  // loopsOver counts the loops over a list: one may put into something what another expects of it.
  function loopsOver(list) {
    const isOver = (n) => some(n, (inner) => inner.type === "Identifier" && inner.name === list.name && binder(inner) === binder(list));
    return seen().filter((n) => (n.type === "ForOfStatement" ? isOver(n.right) : n.type === "CallExpression" && EACH.test(nameOf(n)) && isOver(n.callee.object))).length;
  }
  const objects = new Set(nodes.filter((n) => n.type === "MemberExpression").map((n) => n.object));
  // handed are the arguments of calls that are no assertions: the code may get them.
  const handed = () => seen().filter((n) => /^(Call|New)Expression$/.test(n.type) && !isAssertion(n) && !COMPARES.test(nameOf(n))).flatMap((call) => call.arguments.filter((a) => !isFunction(a)));
  // isInput reports whether the test also gives the code a value, or something that it is a member of, or
  // changes that.
  function isInput(node) {
    const wholes = [node];
    while (wholes[0].type === "MemberExpression") wholes.unshift(wholes[0].object);
    const texts = wholes.map(source), isOne = (n) => texts.includes(source(n));
    const isUse = (n) => (n.type === "MemberExpression" && source(n) === texts.at(-1)) || (/^(Identifier|MemberExpression)$/.test(n.type) && isOne(n) && !objects.has(n));
    const isChange = ({ type, left, argument, expression }) => {
      // What a method gives is not used where it is called to change something.
      if (type === "ExpressionStatement") return expression.type === "CallExpression" && expression.callee.type === "MemberExpression" && isOne(expression.callee.object);
      const target = type === "AssignmentExpression" ? left : type === "UpdateExpression" ? argument : undefined;
      return target?.type === "MemberExpression" && (isOne(target) || (!isPath(target) && isOne(target.object)));
    };
    return handed().some((a) => some(a, isUse)) || (node.type === "MemberExpression" && seen().some(isChange));
  }
  // isInputElsewhere reports whether another test gives the code a value, of a table that several have.
  let shared, gathers = false;
  function isInputElsewhere(node) {
    const own = scope;
    gathers = true;
    const isTable = (n) => n.type === "VariableDeclarator" && /Array|Object|Literal/.test(n.init?.type) && !found.some((test) => within(n, test.node));
    const tables = shared ? [] : nodes.filter(isTable).map((n) => n.id.name);
    shared ??= found.filter((test) => some(test.node, (n) => tables.includes(n.name))).map((test) => {
      scope = test.node;
      const given = handed().filter((a) => within(a, scope)).flatMap((a) => seen().filter((n) => within(n, a) && !objects.has(n) && isPath(n)));
      return { test, values: given.flatMap((n) => reached(n)).filter((v) => v.start !== undefined) };
    });
    [scope, gathers] = [own, false];
    return shared.some(({ test, values }) => test.node !== scope && values.some((v) => v.start < node.end && node.start < v.end));
  }
  // isPath reports whether a node selects with constant keys from what has a name.
  const isPath = (node) => node.type === "Identifier" || (node.type === "MemberExpression" && (!node.computed || node.property.type === "Literal") && isPath(node.object));
  // isRead reports whether something in a node comes, by names and loops, from a call that reads.
  function isRead(node, depth = 0) {
    return some(node, (n) => isReading(n) || (n.type === "Identifier" && depth < 9 && origins(n.name).some((from) => isRead(from, depth + 1))));
  }
  // origins are the expressions from which a name takes a value, or a part of one.
  function origins(name) {
    const names = (target) => target && some(target, (n) => n.type === "Identifier" && n.name === name);
    return seen().flatMap((n) => {
      if (n.type === "VariableDeclarator" && n.init && names(n.id)) return [n.init];
      if (n.type === "ForOfStatement" && names(n.left.declarations?.[0].id)) return [n.right];
      if (n.type === "CallExpression" && n.callee.object && EACH.test(nameOf(n)) && n.arguments[0]?.params?.some(names)) return [n.callee.object];
      return [];
    });
  }
  // reached are the expressions that a name stands for, or a member of what it does.
  function reached(node, depth = 0) {
    if (node.type === "Identifier") return bound(node).flatMap((v) => (v.type === "MemberExpression" && isPath(v) && depth < 9 ? reached(v, depth + 1) : [v]));
    const key = node.computed ? node.property.value : node.property.name;
    return reached(node.object, depth + 1).flatMap((v) => [...property(v, key), ...((v.elements && [v.elements[key]]) || [])]).filter(Boolean);
  }
  // sources are the expressions behind the expected one, where they are it alone.
  const sites = new Set();
  function sources(node) {
    const values = behind(node);
    return values.some((v) => v !== node && v.start !== undefined && isInputElsewhere(v)) ? [] : values;
  }
  function behind(node) {
    if (node.type === "MemberExpression" && isPath(node)) return isInput(node) ? [] : reached(node);
    if (node.type === "MemberExpression" && node.object.type === "Identifier") {
      const lists = bound(node.object).filter((v) => v.type === "ArrayExpression");
      const uses = nodes.filter((n) => n.type === "Identifier" && n.name === node.object.name && n !== node.object && !nodes.some((d) => d.type === "VariableDeclarator" && d.id === n));
      return uses.length === 0 && lists.length > 0 ? lists.flatMap(items) : [node];
    }
    if (node.type !== "Identifier" || node.name === "undefined") return [node];
    const values = bound(node);
    const others = seen();
    const tells = (n) => n.type === "TemplateLiteral" || (n.type === "CallExpression" && /^(log|error|warn|fail)$/.test(nameOf(n)));
    const given = new Set(nodes.flatMap((n) => (n.type === "VariableDeclarator" ? [n.id] : n.type === "AssignmentExpression" ? [n.left] : n.type === "Property" && !n.shorthand ? [n.key] : n.type === "ArrayPattern" ? n.elements : n.type === "ObjectPattern" ? n.properties.flatMap((p) => [p.key, p.value]) : n.params || [])));
    for (const n of nodes.filter(tells)) walk.full(n, (inner) => given.add(inner));
    for (const n of nodes.filter((n) => n.type === "CallExpression" && /^(test|it)$/.test(nameOf(n)) && n.arguments[0])) walk.full(n.arguments[0], (inner) => given.add(inner));
    return others.some((n) => n.type === "Identifier" && n.name === node.name && !given.has(n) && !sites.has(n.start)) ? [] : values;
  }

  // What is altered.

  // lenient are the nodes at which a comparison may fail in a test that passes.
  const lenient = new Set(), noted = new Set();
  // collects is set while it is only looked at what each test compares.
  // isCovered says that something is left out which is noted where the rest is as it was.
  let isCovered, collects, kinds, name, compared, goesOn, holds, truthsNoted, asserts, tried, numbers, inputs;
  function put(kind, site, edits, records = []) {
    edits = edits.filter(([start, end, to]) => text.slice(start, end) !== to);
    if (request.way === "reach") [edits, records] = [edits.length > 0 ? [[site.start, site.end, fail]] : [], []];
    if (request.way === "record" || (request.way === "hold" && records.length < 3)) edits = [];
    kinds[kind].push(...edits, ...records);
  }
  // isPerResult reports whether a node stands in a loop, to its end, over what the code returned,
  // or in a function that the code calls.
  function isPerResult(node) {
    const loops = nodes.filter((n) => within(node, n) && within(n, scope) && (n.type === "ForOfStatement" || (n.type === "CallExpression" && n.arguments.some((a) => /Function/.test(a.type) && within(node, a)))));
    const loop = loops.sort((a, b) => a.end - a.start - (b.end - b.start))[0];
    if (!loop || some(loop, (n) => /^(Break|Continue)/.test(n.type))) return false;
    return loop.type === "ForOfStatement" ? calls(loop.right) : !loop.callee.object || calls(loop.callee.object);
  }
  // recorded has it noted what is compared with an expected value.
  const isStrict = /assert\/strict|\.strict\b|\bstrict\b *(as|})/.test(text) ? /^((deepS|s)trictEqual|toBe|toStrictEqual|(deepE|e)qual)?$/ : /^((deepS|s)trictEqual|toBe|toStrictEqual)?$/;
  function recorded(node, actual, values, by, far) {
    // What a test within this one compares is noted there.
    if (!actual || actual.start === undefined || !request.record || noted.has(actual.start) || some(actual, (n) => n.type === "YieldExpression")) return [];
    let notes = [];
    const isLoose = by === "equal" && !isStrict.test(by), near = stepsOf(values, far);
    try {
      if (near) notes = values.map((v) => note(stepOf(valueOf(v), near)));
      else if (isLoose || isStrict.test(by)) notes = values.map((v) => note(valueOf(v), isLoose));
    } catch {
      notes = [];
    }
    noted.add(actual.start);
    const site = `${path}:${compared.length}`;
    compared.push({ name: site, test: name, values: notes, lenient: lenient.has(node), handed: isHanded(node), listed: node.type === "MemberExpression" && node.computed && isPerResult(node) });
    // A test goes on where an altered comparison is noticed, unless that may be caught.
    const isHeld = notes.length > 0 && (request.way === "hold" || (request.way === "expectation" && goesOn && !lenient.has(node)));
    holds ||= isHeld && request.way === "expectation";
    const saw = (site) => `${prefix}${isHeld ? "hold" : "saw"}(${JSON.stringify(site)}, `;
    const end = isLoose ? ", true)" : near ? `, false, [${near}])` : ")";
    const records = [[actual.start, actual.end, saw(site) + source(actual) + end], [node.start, node.start, saw(site + "=")], [node.end, node.end, end]];
    return request.way === "hold" && notes.length === 0 ? records.slice(0, 1) : records;
  }
  // others puts values in the place of one that have nothing of it.
  function others(value) {
    if (literals(value).length === 0) return filled(value) ? [[value.start, value.end, filled(value)]] : [];
    return literals(value).map((leaf) => [leaf.start, leaf.end, other(leaf, source(leaf), prefix)]);
  }
  // filled is what stands for a value that holds nothing, or "".
  function filled(node) {
    if (node.type === "ArrayExpression" && node.elements.length === 0) return `[${JSON.stringify(prefix)}]`;
    if (node.type === "ObjectExpression" && node.properties.length === 0) return `{ ${prefix}: 1 }`;
    return "";
  }
  // expected alters an expected value, which is compared with by what has the name.
  function expected(node, name = "", actual = undefined, far = undefined) {
    sites.add(node.start);
    const values = sources(node);
    ask(node, actual, values, name, far);
    if (values.some((v) => literals(v).length > 0)) {
      const count = compared.length;
      const records = recorded(node, actual, values, name, far);
      if (request.rest && compared.length > count && compared[count].values.length > 0) return (isCovered = !!compared.pop());
      return put(LITERAL, node, values.flatMap(others), records);
    }
    if (actual?.start !== undefined) watchInputs(node, actual);
    const reads = values.some((v) => v.start !== undefined && some(v, isReading)) || (request.data && /^(Identifier|MemberExpression)$/.test(node.type) && !isInput(node) && isRead(node));
    put(reads && request.data ? DATA : VALUE, node, [[node.start, node.end, `${prefix}mut(${source(node)})`]]);
  }
  const calls = (node) => (node.type === "Identifier" ? bound(node) : [node]).some((v) => v.start !== undefined && some(v, (n) => n.type === "CallExpression"));
  // isKnown is whether the test itself says what a value is.
  function isKnown(node) {
    const values = node.type === "Identifier" ? bound(node) : [node];
    return values.length > 0 && values.every((v) => v.start !== undefined && literals(v).length > 0);
  }
  // oneOf alters the side of a comparison that is not the result of a call.
  function oneOf(left, right, name, far = undefined) {
    const [wanted, actual] = calls(right) && !calls(left) ? [left, right] : [right, left];
    expected(wanted, name, actual, far);
  }
  // stepsOf are the width and the start of steps, of which what is near enough to a number is in the same.
  function stepsOf(values, far = {}) {
    try {
      const distances = far.type === "Identifier" ? bound(far) : [far];
      const width = 4 * values.length * valueOf(distances.length === 1 ? distances[0] : {});
      const at = values.map(valueOf).map((n) => n - Math.floor(n / width) * width).sort((a, b) => a - b);
      // A step begins where the numbers are the farthest.
      const gaps = at.map((a, i) => [(at[i + 1] ?? at[0] + width) - a, ((at[i + 1] ?? at[0] + width) + a) / 2]);
      return width > 0 ? [width, gaps.sort((a, b) => b[0] - a[0])[0][1]] : undefined;
    } catch {
      return undefined;
    }
  }
  function truth(node) {
    if (node.type === "LogicalExpression") return [node.left, node.right].forEach(truth);
    const each = node.type === "CallExpression" && nameOf(node) === "every" && node.arguments[0];
    if (each && each.expression) return truth(each.body);
    if (compares(node)) return;
    const difference = node.type === "BinaryExpression" && /^<=?$/.test(node.operator) && source(node.left).startsWith("Math.abs(") && node.left.arguments && node.left.arguments[0];
    if (difference && difference.operator === "-") return oneOf(difference.left, difference.right, "closeTo", node.right);
    if (node.type === "BinaryExpression" && /^===?$/.test(node.operator)) return oneOf(node.left, node.right);
    neither(node);
  }
  // neither has what must be true, or must not be, be neither, so that nothing tells which it was.
  function neither(node, mustBe = true) {
    questions.truth(node, mustBe);
    const isNot = node.type === "UnaryExpression" && node.operator === "!";
    const contrary = node.type === "BinaryExpression" && { "!==": "===", "!=": "==", "<=": ">", ">=": "<" }[node.operator];
    const tested = isNot ? relation(node.argument) : relation(node, contrary || node.operator);
    const wanted = mustBe === (!isNot && !contrary);
    if (!request.record || some(node, (n) => n.type === "YieldExpression")) return put(TRUTH, node, [[node.start, node.end, `!(${source(node)})`]]);
    const site = `${path}:t${node.start}`;
    const goesOnHere = goesOn && !lenient.has(node);
    holds ||= goesOnHere && request.way === "expectation";
    const drawn = (value) => [node.start, node.end, `${mustBe ? "" : "!"}${prefix}truth(${JSON.stringify(site)}, ${tested}, ${value}, ${goesOnHere})`];
    const comparison = { name: site, test: name, values: ["=" + wanted], lenient: lenient.has(node) };
    truthsNoted.push({ comparison, edits: asserts && !comparison.lenient ? [drawn(wanted)] : [] });
    if (request.way === "record" || request.way === "hold") kinds[TRUTH].push(drawn(request.way === "record" ? wanted : null));
    else put(TRUTH, node, [drawn(null)]);
  }
  // compares alters what a call compares that must be true, or whose result must be so.
  function compares(node) {
    let names = COMPARER;
    if (node.type === "UnaryExpression" && node.operator === "!") [names, node] = [DIFFERENCE, node.argument];
    else if (node.type === "BinaryExpression" && /^===?$/.test(node.operator)) {
      const [result, call] = node.left.type === "Literal" ? [node.left, node.right] : [node.right, node.left];
      if (result.type !== "Literal" || (result.value && result.value !== true)) return false;
      [names, node] = [result.value ? COMPARER : DIFFERENCE, call];
    }
    if (node.type !== "CallExpression" || !names.test(nameOf(node)) || node.arguments.length === 0) return false;
    const [first, second] = node.arguments;
    if (isKnown(first) && isKnown(second || node.callee.object || {})) return false; // what it returns is what the code returns
    // What it takes for equal is its own affair, unlike what an assertion does.
    const by = names === COMPARER && !PART.test(nameOf(node)) ? "equals" : nameOf(node);
    if (second) oneOf(first, second, by);
    else if (node.callee.object) oneOf(node.callee.object, first, by);
    else expected(first, by);
    return true;
  }
  // isHanded is whether a node lies in a function that the code under test may call and guard.
  const ownCall = /^(test|it|describe|suite|forEach|map|filter|every|some|reduce|then)$/, ofTests = /^(test|it|describe|suite)\.(only|skip|todo|fails|failing|concurrent|sequential|serial|each)\b/;
  const isOwnCall = (call) => ownCall.test(nameOf(call)) || ofTests.test(source(call.callee));
  const handedIn = remember((of) => nodes.filter((n) => n.type === "CallExpression" && within(n, of) && !isOwnCall(n)).flatMap((call) => call.arguments.filter(isFunction)));
  const isHanded = (node) => handedIn(scope).some((f) => within(node, f));
  // failsOnPurpose is whether an assertion is about nothing that the code returns.
  const failsOnPurpose = (call) => nameOf(call) === "fail" || (call.arguments.length > 0 && call.arguments.every((a) => a.type === "Literal"));
  // watch has it noted whether what must be so whatever is expected is.
  function watch({ start }, call, isOnPurpose = false) {
    const site = `${path}:a${start}`;
    tried.push({ name: site, test: name, values: /tried|so/.test(call) ? ["=true"] : [], lenient: isOnPurpose });
    return `${prefix}${call}(${JSON.stringify(site)}, `;
  }
  // relation is a comparison with another operator. Numbers are watched: what is none is neither
  // less nor more.
  function relation(node, operator = node.operator) {
    const isWatched = /^[<>]=?$/.test(operator) && request.record && !/NaN/.test(text);
    if (node.type !== "BinaryExpression" || (operator === node.operator && !isWatched)) return source(node);
    const sides = [node.left, node.right];
    if (isWatched) numbers.push(...sides.filter((side) => side.type !== "Literal"));
    const [left, right] = sides.map((side) => (numbers.includes(side) ? `${watch(side, "number")}${source(side)})` : `(${source(side)})`));
    return `${left} ${operator} ${right}`;
  }
  // watchInputs watches what the test hands to the code and reckons with itself: code that changes
  // it changes what is expected of it.
  function watchInputs(wanted, actual) {
    const behind = (node) => [node, ...(node.type === "Identifier" ? bound(node) : [])].filter((n) => n.start !== undefined);
    const given = [], used = new Set();
    for (const one of behind(actual)) walk.full(one, (n) => n.type === "CallExpression" && n.callee.type === "Identifier" && given.push(...n.arguments.filter((a) => a.type === "Identifier")));
    // What is given back as it is remains the same, whatever the code has changed in it.
    for (const one of behind(wanted)) if (one !== wanted || one.type !== "Identifier") walk.full(one, (n) => n.type === "Identifier" && used.add(n.name));
    for (const one of given) if (used.has(one.name) && one.name !== actual.name) inputs.push({ one, actual });
  }
  // ask has what is compared asked outside of the tests, too.
  function ask(node, actual, values, by, far) {
    const near = stepsOf(values, far);
    if (near) return questions.compared(node, actual, values, near);
    const isLoose = by === "equal" && !isStrict.test(by);
    questions.compared(node, PART.test(by) || /Length$|^equals|^is[A-Z]/.test(by) ? undefined : actual, values, isLoose ? "loose" : isStrict.test(by) ? "" : "part");
  }
  const equality = (left, right) => ({ type: "BinaryExpression", operator: "===", left, right });
  // leftOut are the tests that must fail, or may.
  const leftOut = new Set(nodes.filter((n) => n.type === "CallExpression" && /^(test|it|describe|suite)\.(skip|todo|fails|failing)\b/.test(source(n.callee))));
  // isLeftOut is whether an argument says that an assertion may fail, as tape and tap have it.
  const isLeftOut = (argument) => argument.properties?.some((p) => /^(skip|todo)$/.test(p.key?.name) && p.value.value !== false);
  // chained alters what a chain of words compares, or says that it must be.
  function chained(node, chain, first, second) {
    const name = node.callee ? nameOf(node) : "";
    if (chain.not || name === "") return put(TRUTH, node, [chain.not ? [chain.not.object.end, chain.not.end, ""] : [chain.root.end, chain.root.end, ".not"]]);
    if (name === "property" && second) return expected(second);
    if (!CHAINED.test(name)) return undefined;
    const by = !chain.isKnown || PART.test(name) ? name : chain.isDeep || /^eqls?$/.test(name) ? "deepStrictEqual" : /^eq/.test(name) ? "strictEqual" : name;
    return compares(equality(chain.actual, first)) || expected(first, by, /^length/.test(name) ? undefined : chain.actual);
  }
  function assertion(node) {
    const name = nameOf(node);
    const [first, second] = node.arguments;
    const object = node.callee.object;
    if (object && /^to[A-Z]/.test(name) && /\bexpect\(/.test(source(object))) {
      const inverted = object.property && object.property.name === "not";
      const actual = (inverted ? object.object : object).arguments?.[0];
      if (first && EQUAL.test(name) && !inverted) return (actual && compares(equality(actual, first))) || expected(first, name, actual);
      // Of one within the other both inverted would be neither.
      if (actual && some(actual, (n) => lookOf(n, source))) return;
      const edit = inverted ? [object.object.end, object.end, ""] : [object.end, object.end, ".not"];
      if (request.way === "reach") return kinds[TRUTH].push([object.start, object.start, fail + ","]);
      return put(TRUTH, object, [edit]);
    }
    const chain = object && first && chainOf(node.callee.object);
    if (chain) return chained(node, chain, first, second);
    if (!first || (object && node.arguments.slice(2).some(isLeftOut))) return;
    if (/^not/.test(name) && INVERSE[name] && !object) return put(TRUTH, first, [[node.callee.start, node.callee.end, `${prefix}not(${name})`]]);
    if (INVERSE[name] && object) return put(TRUTH, first, [[node.callee.property.start, node.callee.property.end, INVERSE[name]]]);
    if (EQUAL.test(name) && second && second.type !== "SpreadElement") return compares(equality(first, second)) || oneOf(first, second, name);
    if (name === "ok" || name === "assert") return truth(first);
    if (RAISES.has(name)) return put(VALUE, first, [[first.start, first.end, name === "throws" ? "() => {}" : "Promise.resolve()"]]);
    if (object || !/^_?(assert|check|expect|same|equal|verify\w)/i.test(name) || !second) return;
    given(node);
  }
  // given alters what a helper of the tests is given.
  function given(call) {
    for (const argument of call.arguments) {
      if ((argument.type === "Identifier" ? bound(argument) : [argument]).some((v) => literals(v).length > 0)) expected(argument);
    }
  }
  // isUsed is whether the value of a call is passed on or kept. An assertion's is not: this is a function of that name.
  function isUsed(call, above) {
    if (source(call.callee) === "Object.is") return false; // which is the language's own
    const by = above.findLast((n) => n !== call && !/^(Logical|Conditional)/.test(n.type));
    return /^(Call|New)/.test(by?.type) || (call.callee.object !== undefined && /^(Unary|Binary|Assignment|VariableDeclarator)/.test(by?.type));
  }
  // condition alters what makes a test fail when it is true.
  function condition(node, isWithin) {
    if (MACHINE.test(source(node))) return;
    if (node.type === "BinaryExpression" && /^!==?$/.test(node.operator)) return (!request.whole || calls(node.left) || calls(node.right)) && oneOf(node.left, node.right);
    if (node.type === "UnaryExpression" && node.operator === "!") truth(node.argument);
    else if (!isWithin && !request.whole) neither(node, false);
  }
  const isAssertion = (call) => (call.callee.object ? /^(assert$|t\.assert$|expect\()/.test(source(call.callee.object)) && !RAISES.has(nameOf(call)) : /^(assert|ok|(strict|deep|deepStrict)?[eE]qual)$/.test(nameOf(call)));
  function body(node, title, { isEach, isMade }) {
    name = title;
    kinds = [[], [], [], []];
    // truthsNoted has conditions with the edits that note them as they are where they are those of assertions.
    [truthsNoted, asserts] = [[], true];
    isCovered = false;
    [tried, numbers, inputs] = [[], [], []];
    sites.clear();
    scope = node;
    holds = false;
    goesOn = !request.whole && !isMade && (node.params.length < 2 || isEach) && !some(node, (n) => n.type === "YieldExpression");
    lenient.clear();
    const throws = (n) => n.type === "TryStatement" || (n.type === "CallExpression" && (RAISES.has(nameOf(n)) || nameOf(n) === "catch"));
    walk.full(node, (n) => throws(n) && walk.full(n, (inner) => lenient.add(inner)));
    questions.begin(title, node, lenient, collects || request.way !== "expectation");
    const assertions = [];
    if (isMade) given(node);
    walk.fullAncestor(node, (inner, _, above) => {
      if (above.some((n) => n !== node && (leftOut.has(n) || found.some((f) => f.node === n)))) return; // of a test within this one
      const isWithin = above.filter((n) => /Function/.test(n.type)).length > 1;
      const before = questions.leaves;
      if (inner.type === "CallExpression" && !isUsed(inner, above)) assertion(inner);
      if (inner.type === "CallExpression" && questions.leaves === before && lookOf(inner, source)) questions.isOpen = true;
      if (inner.type === "CallExpression" && isWithin && /^(Expression|Arrow)/.test(above.at(-2).type) && isAssertion(inner)) assertions.push(inner);
      const said = inner.type === "ExpressionStatement" && inner.expression.type === "MemberExpression" && chainOf(inner.expression);
      if (said) chained(inner.expression, said);
      if (inner.type === "SwitchStatement" && calls(inner.discriminant) && some(inner, (n) => n.type === "ThrowStatement")) {
        for (const one of inner.cases) if (one.test && !some(one, (n) => n.type === "ThrowStatement")) expected(one.test);
      }
      if (inner.type === "IfStatement" && ((request.whole && !request.rest) || some(inner.consequent, (n) => n.type === "ThrowStatement"))) {
        const direct = inner.consequent.type === "BlockStatement" ? inner.consequent.body : [inner.consequent];
        if (!direct.some((n) => n.type === "ThrowStatement")) walk.full(inner.test, (n) => lenient.add(n));
        asserts = false;
        condition(inner.test, isWithin);
        asserts = true;
        if (isWithin && /^!==?$/.test(inner.test.operator)) assertions.push(inner.test);
      }
    });
    if (questions.isWhole()) answerable.push(node);
    let kind = kinds.findIndex((edits) => edits.length > 0);
    if (request.rest && !isCovered && kind >= 0) kind = kinds.findIndex((edits, i) => i > kind && edits.length > 0);
    if (kind < 0 && request.way === "record" && assertions.length + inputs.length > 0) kind = VALUE;
    // A failure that the code under test swallows is noted, of assertions that expect what they did.
    const covers = (one) => kinds[kind].some(([start, end]) => start < end && start <= one.start && one.end <= end);
    const isOther = (one) => kinds[kind].some(([start, end, to]) => start >= one.start && end <= one.end && !to.startsWith(prefix) && to !== ")");
    const surround = (one, call) => kinds[kind].push([one.start, one.start, call], [one.end, one.end, ")"]);
    if (kind < 0 || request.way === "reach" || !request.record) return kind;
    for (const one of assertions) {
      if (!lenient.has(one) && !some(one, (n) => /^(Await|Yield)/.test(n.type)) && !isOther(one)) surround(one, one.type === "CallExpression" ? watch(one, "tried", failsOnPurpose(one)) + "() => " : watch(one, "so"));
    }
    const ends = []; // of two around the same, the one that begins first ends last
    for (const { one, actual } of inputs) {
      if (lenient.has(actual) || covers(actual) || covers(one)) continue;
      const call = watch(one, "given");
      surround(one, call);
      kinds[kind].push([actual.start, actual.start, call.replace("given(", "same(")]);
      ends.unshift([actual.end, actual.end, `, () => ${one.name})`]);
    }
    kinds[kind].push(...ends);
    for (const one of kind === TRUTH ? [] : numbers) if (!covers(one)) surround(one, watch(one, "number"));
    return kind;
  }

  // retell has comments and messages say of what is expected what it is altered to.
  function retell(edits) {
    const plain = /^(?:-?[\d.]+|(["'`])([^'"`\\\n{}$%]+)\1)$/, others = new Map();
    for (const [start, end, to] of edits) {
      const before = plain.exec(text.slice(start, end)), after = plain.exec(to);
      if (before && after) others.set(before[2] ?? before[0], after[2] ?? after[0]);
    }
    if (others.size === 0) return [];
    const words = [...others.keys()].sort((a, b) => b.length - a.length).map((one) => one.replace(/[^\w\s]/g, "\\$&"));
    const told = RegExp(`\\\\.|%[a-z]|\\$\\{[^}]*\\}|(?<!\\w)(?:${words.join("|")})(?!\\w)`, "gs");
    const said = { fail: 0, ok: 1, assert: 1 }; // what stands before a message
    const messages = nodes.filter((n) => n.type === "CallExpression" && lookOf(n, source)).flatMap((n) => n.arguments.slice(said[nameOf(n)] ?? 2)).filter((n) => /^(Literal|TemplateLiteral)$/.test(n.type));
    return [...comments, ...messages.map((n) => [n.start, n.end])].map(([start, end]) => [start, end, text.slice(start, end).replace(told, (one) => others.get(one) ?? one)]);
  }
  const questions = new Questions({ path, text, nodes, source, bound, items, members, whole: request.whole });
  const answerable = [];

  // The tests; one whose title is computed is any test of its file.
  if (request.whole) found.push({ name: "", node: tree });
  for (const node of request.whole ? [] : nodes) {
    if (node.type !== "CallExpression") continue;
    const isMade = !bodyOf(node) && node.arguments[1]?.type === "CallExpression"; // a function that a call returns
    const last = isMade ? node.arguments[1] : bodyOf(node), isEach = /^(Call|TaggedTemplate)/.test(node.callee.type);
    const of = isEach ? node.callee.callee ?? node.callee.tag : node.callee;
    const callee = of.type === "MemberExpression" ? (of.property.name === "test" ? of.property : of.object) : of;
    // Of test.only.each the name is within.
    if (last && /^(test|it|specify|tape)$/.test((callee.type === "MemberExpression" ? callee.object : callee).name || "")) found.push({ name: !isEach && node.arguments[0].type === "Literal" ? String(node.arguments[0].value) : "*", node: last, isEach, isMade });
  }
  const ending = (node) => [[node.start, node.start, prefix + "end("], [node.end, node.end, ")"]];
  const edits = [], tests = [], truths = [], data = [], watched = [];
  const start = text.startsWith("#!") ? text.indexOf("\n") + 1 : 0;
  for (collects of [true, false]) {
    for (const list of [edits, tests, truths, data, watched, questions.all, answerable]) list.length = 0;
    compared = [];
    noted.clear();
    for (const { name, node, isEach, isMade } of found) {
      if (request.way === "end") {
        if (!request.whole && !isMade && node.params.length > 1 && !isEach) continue;
        if (request.whole) edits.push([start, start, fail + ";"]);
        else edits.push(...ending(node));
      } else {
        const kind = body(node, name, { isEach, isMade });
        if (kind === DATA) data.push(name);
        if (kind < 0 || kind === DATA) continue;
        if (kind === TRUTH) {
          truths.push(name);
          compared.push(...truthsNoted.map((n) => n.comparison));
        } else if (request.whole && kind === LITERAL && !request.rest && request.way !== "reach") {
          // Another test of the file may have nothing but conditions: they are noted, and altered with the rest.
          // Around another edit they would hide it.
          const isAround = (n) => n.edits.some((e) => kinds[kind].some((k) => e[0] <= k[0] && k[1] <= e[1]));
          const beside = truthsNoted.filter((n) => n.edits.length > 0 && !isAround(n));
          compared.push(...beside.map((n) => n.comparison));
          edits.push(...beside.flatMap((n) => n.edits));
        }
        watched.push(...tried);
        edits.push(...kinds[kind], ...(holds && (kind === LITERAL || kind === TRUTH) ? ending(node) : []));
      }
      tests.push(name);
    }
  }
  if (edits.length + data.length === 0) return;
  edits.push(...retell(edits));
  edits.sort((a, b) => a[0] - b[0] || (a[0] !== a[1]) - (b[0] !== b[1]) || b[1] - a[1]);
  let out = "";
  let at = 0;
  let count = 0;
  for (const [start, end, to] of edits) {
    if (start < at) continue;
    out += text.slice(at, start) + to;
    at = end;
    count++;
  }
  out += text.slice(at);
  if (out.includes(prefix)) out += helpers(prefix, path, nodes);
  // Of tests with the same name all must be answerable, and of one whose name is computed all of the file.
  const isClosed = (name) => found.every((f) => answerable.includes(f.node) || (f.name !== name && name !== "*"));
  return { path, text: out, questions: questions.all, answerable: [...new Set(tests)].filter(isClosed), tests: [...new Set(tests)], truths, data, count, compared, watched };
}

function main() {
  const altered = [];
  for (const file of request.files) {
    try {
      const one = alter(file);
      if (one) altered.push(one);
    } catch (e) {
      altered.push({ path: file.path, text: "", fault: e.message }); // the other files are altered all the same
    }
  }
  fs.writeFileSync(report, JSON.stringify(altered));
}
