// What the syntax tree of a file in JavaScript says.

// withoutTypes is the text of a file without its types: by this node, or else by a compiler of the tree, which an answer
// cannot change.
function withoutTypes(path, text) {
  if (!/\.[cm]?ts$/.test(path)) return text;
  const { stripTypeScriptTypes, createRequire } = require("node:module");
  const find = createRequire(require("node:path").resolve(path));
  const ways = [
    (typed) => stripTypeScriptTypes(typed),
    (typed) => find("typescript").transpileModule(typed, { compilerOptions: { ...classOptions(find("typescript"), path), target: "ESNext", module: "ESNext" } }).outputText,
    (typed) => find("esbuild").transformSync(typed, { loader: "ts" }).code,
  ];
  for (const strip of ways) {
    try {
      return "// @ts-nocheck\n" + strip(text);
    } catch {
      continue;
    }
  }
  throw new SyntaxError(`its types are not stripped by Node ${process.versions.node} (22.13 or later does that), nor by typescript or esbuild in the tree`);
}

// classOptions are those by which a project's classes do not mean what they do in JavaScript.
function classOptions(typescript, path) {
  const file = typescript.findConfigFile?.(require("node:path").resolve(path, ".."), typescript.sys.fileExists);
  const { experimentalDecorators, emitDecoratorMetadata, target, useDefineForClassFields = /^es(2022|2023|2024|next)$/i.test(target) } = (file && typescript.readConfigFile(file, typescript.sys.readFile).config?.compilerOptions) || { target: "ESNext" };
  return { experimentalDecorators, emitDecoratorMetadata, useDefineForClassFields };
}

function parse(text, onComment = undefined) {
  const options = { onComment, ecmaVersion: "latest", allowHashBang: true, allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true };
  try {
    return acorn.parse(text, { ...options, sourceType: "module" });
  } catch {
    return acorn.parse(text, { ...options, sourceType: "script" });
  }
}

// nameOf is the name of what is called.
function nameOf({ callee }) {
  return (callee.type === "MemberExpression" && !callee.computed ? callee.property.name : callee.name) || "";
}

// chainOf is what a chain of words says something of, as chai has them: expect(x).to.deep, x.should.not, that(x). isKnown
// is whether its words are known to mean what they do in chai.
function chainOf(node) {
  let not, isDeep = false;
  for (let at = node; at; at = at.object) {
    if (at.type === "CallExpression" && /^(expect|should|that|assertThat|check|verify)$/.test(nameOf(at)) && at.arguments.length > 0) return { actual: at.arguments[0], root: at, not, isDeep, isKnown: /^(expect|should)$/.test(nameOf(at)) };
    if (at.type !== "MemberExpression" || at.computed) return undefined;
    if (at.property.name === "should") return { actual: at.object, root: at, not, isDeep, isKnown: true };
    if (at.property.name === "not") not = at;
    isDeep ||= at.property.name === "deep";
  }
  return undefined;
}

// some reports whether something holds of a node or one within it.
function some(node, holds) {
  let found = false;
  walk.full(node, (inner) => (found ||= holds(inner)));
  return found;
}

const within = (node, { start, end }) => start <= node.start && node.end <= end;

// valueOf returns what a literal is, and throws where an expression is none.
function valueOf(node) {
  switch (node.type) {
    case "Literal":
      if (node.regex || node.bigint) break;
      return node.value;
    case "Identifier":
      if (node.name !== "undefined") break;
      return undefined;
    case "TemplateLiteral":
      if (node.expressions.length > 0) break;
      return node.quasis[0].value.cooked;
    case "UnaryExpression":
      if (node.operator !== "-") break;
      return -valueOf(node.argument);
    case "ArrayExpression":
      return node.elements.map(valueOf);
    case "ObjectExpression":
      return Object.fromEntries(node.properties.map((p) => [p.computed ? valueOf({}) : (p.key.name ?? p.key.value), valueOf(p.value)]));
  }
  throw new TypeError("no literal");
}

// remember has a function of a node reckoned once for each.
function remember(f) {
  const found = new WeakMap();
  return (node) => found.get(node) ?? found.set(node, f(node)).get(node);
}
