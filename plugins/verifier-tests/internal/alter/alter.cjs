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

const EQUAL = new Set(["equal", "strictEqual", "deepEqual", "deepStrictEqual", "same", "is", "eq", "eql"]);
const INVERSE = { notEqual: "equal", notStrictEqual: "strictEqual", notDeepEqual: "deepEqual", notDeepStrictEqual: "deepStrictEqual", match: "doesNotMatch", doesNotMatch: "match" };
const RAISES = new Set(["throws", "rejects"]);

function parse(text) {
  const options = { ecmaVersion: "latest", allowHashBang: true, allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true };
  try {
    return acorn.parse(text, { ...options, sourceType: "module" });
  } catch {
    return acorn.parse(text, { ...options, sourceType: "script" });
  }
}

function alter({ path, text }) {
  const tree = parse(text);
  const prefix = "_" + word() + "_";
  const edits = [];
  const put = (start, end, to) => edits.push([start, end, to]);
  const fail = prefix + "fail()";
  const source = (node) => text.slice(node.start, node.end);
  const reach = request.way === "reach";

  function expected(node) {
    if (reach) return put(node.start, node.end, fail);
    if (node.type === "Literal" && typeof node.value === "number") return put(node.start, node.end, String(node.value + 1 + draw(97)));
    put(node.start, node.end, `${prefix}mut(${source(node)})`);
  }
  function assertion(node) {
    const callee = node.callee;
    const name = callee.type === "MemberExpression" && !callee.computed ? callee.property.name : callee.name;
    const [first, second] = node.arguments;
    if (!first && !/^to[A-Z]/.test(name || "")) return;
    if (EQUAL.has(name) && second && second.type !== "SpreadElement") return expected(second);
    if (name === "ok" || name === "assert") return put(first.start, first.end, reach ? fail : `!(${source(first)})`);
    if (RAISES.has(name)) return put(first.start, first.end, reach ? fail : name === "throws" ? "() => {}" : "Promise.resolve()");
    if (callee.type !== "MemberExpression") {
      if (!/^(assert|check|expect|same|equal)/i.test(name || "") || node.arguments.length < 2) return;
      return node.arguments.filter((a) => a.type === "Literal" && a.value !== null).forEach(expected);
    }
    if (INVERSE[name]) return reach ? put(first.start, first.end, fail) : put(callee.property.start, callee.property.end, INVERSE[name]);
    if (/^to[A-Z]/.test(name || "") && /\bexpect\(/.test(source(callee.object))) {
      const inverted = callee.object.property && callee.object.property.name === "not";
      if (reach) return put(callee.object.start, callee.object.start, fail + ",");
      return inverted ? put(callee.object.object.end, callee.object.end, "") : put(callee.object.end, callee.object.end, ".not");
    }
  }
  // The tests that calls lie in, outermost first.
  const tests = [];
  walk.full(tree, (node) => {
    if (node.type !== "CallExpression") return;
    const callee = node.callee.type === "MemberExpression" ? node.callee.object : node.callee;
    const body = node.arguments.findLast((a) => /Function/.test(a.type));
    const title = node.arguments[0];
    if (body && title.type === "Literal" && /^(test|it)$/.test(callee.name || "")) tests.push({ name: String(title.value), body });
  });
  const names = new Set();
  if (request.way === "end" && !request.whole) {
    for (const { name, body } of tests) {
      if (body.params.length > 1) continue;
      put(body.start, body.start, prefix + "end(");
      put(body.end, body.end, ")");
      names.add(name);
    }
  } else if (request.way === "end") {
    const start = text.startsWith("#!") ? text.indexOf("\n") + 1 : 0;
    put(start, start, `${fail};`);
  } else {
    walk.full(tree, (node) => {
      if (node.type !== "CallExpression") return;
      const within = tests.filter(({ body }) => body.start <= node.start && node.end <= body.end);
      if (!request.whole && within.length === 0) return;
      const before = edits.length;
      assertion(node);
      if (edits.length > before) for (const { name } of within) names.add(name);
    });
  }
  if (edits.length === 0) return;
  edits.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  let out = "";
  let at = 0;
  let count = 0;
  for (const [start, end, to] of edits) {
    if (start < at) continue;
    out += text.slice(at, start) + to;
    at = end;
    count++;
  }
  const helpers = `
function ${prefix}mut(v) {
  if (typeof v === "number") return Number.isFinite(v) ? 2 * v + ${3 + draw(97)} : 0;
  if (typeof v === "string") return v + "${word()}";
  if (typeof v === "boolean") return !v;
  return { ${word()}: v };
}
function ${prefix}fail() { throw new Error("${word()}"); }
function ${prefix}end(f) { return async function (...a) { try { return await f.apply(this, a); } finally { ${fail}; } }; }
`;
  return { path, text: out + text.slice(at) + helpers, tests: request.whole ? [""] : [...names], count };
}

const altered = [];
for (const file of request.files) {
  try {
    const one = alter(file);
    if (one) altered.push(one);
  } catch (e) {
    if (!(e instanceof SyntaxError)) throw e;
  }
}
fs.writeFileSync(report, JSON.stringify(altered));
