// The functions that altered tests in JavaScript call, each with a prefix before its name.

// helpers alter what is computed, and have tests fail at their end.
function helpers(prefix, path, nodes) {
  return `
function ${prefix}mut(v) {
  if (typeof v === "number") return Number.isFinite(v) ? 2 * v + ${3 + draw(97)} : 0;
  if (typeof v === "string") return v + "${word()}";
  return typeof v === "boolean" ? !v : { ${word()}: v };
}
${request.record ? records(prefix, path, nodes) : ""}
function ${prefix}not(f) {
  return (...a) => {
    try {
      f(...a);
    } catch (e) {
      return;
    }
    ${prefix}fail();
  };
}
function ${prefix}fail() { throw new Error("${word()}"); }
function ${prefix}end(f) {
  return Object.defineProperty(function (...a) {
    const state = ${prefix}end, before = state.different = state.different || 0;
    state.running = (state.running || 0) + 1;
    const finish = () => {
      state.running--;
      if (${request.way !== "end"} && state.different === before) return;
      // In tape, which stops where a test throws, one fails by its argument.
      if (a[0] && typeof a[0].end === "function" && typeof a[0].fail === "function") a[0].fail("${word()}");
      else ${prefix}fail();
    };
    let result, isAsync = false;
    try {
      result = f.apply(this, a);
      isAsync = Boolean(result) && typeof result.then === "function";
      return isAsync ? Promise.resolve(result).finally(finish) : result;
    } finally {
      if (!isAsync) finish();
    }
  }, "length", { value: f.length });
}
`;
}

// records are the functions by which comparisons note what they are given. They do without import.meta, which is a
// syntax error where modules are compiled to scripts.
function records(prefix, path, nodes) {
  const isModule = nodes.some((n) => /^(Import|Export).*Declaration$/.test(n.type));
  const fs = isModule ? prefix + "fs" : 'typeof require === "function" ? require("fs") : process.getBuiltinModule("fs")';
  return `${isModule ? `import * as ${prefix}fs from "fs";` : ""}
${plain.toString().replaceAll("plain(", prefix + "plain(")}
${note.toString().replaceAll(/\b(note|plain)\(/g, prefix + "$1(")}
${stepOf.toString().replace("stepOf(", prefix + "stepOf(")}
function ${prefix}saw(site, v, isLoose, near) {
  const line = site + "\\t" + ${prefix}note(near ? ${prefix}stepOf(v, near) : v, isLoose) + "\\n";
  const to = ${prefix}saw.to = ${prefix}saw.to || ${prefix}file();
  to.fs.writeSync(to.file, line);
  return v;
}
function ${prefix}file() {
  const fs = typeof jest === "object" ? jest.requireActual("fs") : ${fs};
  for (const start of [typeof __dirname === "string" ? __dirname : String(process.argv[1]).replace(/[^/]*$/, "."), process.cwd()]) {
    for (let at = start + "/", i = 0; i < 20; at += "../", i++) {
      // Without options, which would have the properties that a test adds to all objects.
      if (fs.existsSync(at + ${JSON.stringify(request.record)})) return { fs, file: fs.openSync(at + ${JSON.stringify(request.record)}, "a") };
    }
  }
  throw new Error("no record");
}
function ${prefix}hold(site, v, isLoose, near) {
  ${prefix}saw(site, v, isLoose, near);
  if (${request.way !== "hold"} && !${prefix}end.running) return v;
  // What is compared second becomes what was compared first, and the test is to fail at its end.
  const first = (${prefix}hold.first = ${prefix}hold.first || {}), name = site.replace(/=$/, ""), [other, known] = first[name] || [site];
  first[name] = other === site ? [site, v] : undefined;
  if (other === site) return v;
  if (isLoose ? known != v : ${prefix}note(known) !== ${prefix}note(v)) ${prefix}end.different++;
  return known;
}
function ${prefix}truth(site, v, wanted, goesOn) {
  const isSame = !!v === wanted;
  ${prefix}saw(site, !!v);
  goesOn = goesOn && ${prefix}end.running > 0;
  if (goesOn && !isSame) ${prefix}end.different++;
  return isSame || goesOn || ${request.way === "hold"};
}
function ${prefix}number(site, v) {
  if (v !== v) ${prefix}saw(site, false);
  return v;
}
function ${prefix}given(site, v) {
  (${prefix}given.notes = ${prefix}given.notes || {})[site] = ${prefix}shape(v);
  return v;
}
function ${prefix}shape(v) { return ${prefix}note(v) + (Object(v) === v ? Reflect.ownKeys(v).length : ""); }
function ${prefix}same(site, v, now) {
  const before = ${prefix}given.notes && ${prefix}given.notes[site];
  if (before !== undefined && before !== ${prefix}shape(now())) ${prefix}saw(site, false);
  return v;
}
function ${prefix}so(site, v) {
  ${prefix}saw(site, !v);
  return v;
}
function ${prefix}tried(site, f) {
  let passes = false;
  try {
    const result = f();
    passes = true;
    return result;
  } finally {
    ${prefix}saw(site, passes);
  }
}`;
}
