// Answers questions about code where none of its tests is: see questions.cjs. A group of questions has a
// process of its own for each file, which waits for them while the one before it runs, and finds
// nothing of other groups.
"use strict";
const { spawn } = require("node:child_process");
const { mkdirSync, readFileSync, unlinkSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { dirname, resolve } = require("node:path");

const PATIENCE = 20000;
const [requestFile, report] = process.argv.slice(2);
const request = JSON.parse(readFileSync(requestFile, "utf8"));
for (const file of [requestFile, __filename]) unlinkSync(file);

// programOf is one program for questions of a file: what they import, and an answer of each.
function programOf(questions) {
  const start = `import threads from "node:worker_threads";
import { syncBuiltinESMExports } from "node:module";
process.chdir(${JSON.stringify(process.cwd())});
process.argv[1] = ${JSON.stringify(resolve(questions[0].file))};
process.execArgv.splice(0, Infinity, ...${JSON.stringify(request.options)});
// What a thread is given as text is a script, as in tests.
threads.Worker = class Worker extends threads.Worker {
  constructor(file, options) {
    super(file, { execArgv: process.execArgv, ...options });
  }
};
syncBuiltinESMExports();`;
  const imports = new Set(), bodies = [];
  for (const { program } of questions) {
    const lines = program.split("\n");
    const first = lines.findIndex((line) => !line.startsWith("import "));
    for (const line of lines.slice(0, first)) imports.add(line);
    bodies.push(`async () => {\n${lines.slice(first).join("\n")}\n}`);
  }
  return `import "data:text/javascript,${encodeURIComponent(start)}";
import { writeSync as _write } from "node:fs";
import { createRequire as _createRequire } from "node:module";
import { fileURLToPath as _path } from "node:url";
${[...imports].join("\n")}
const _dirname = _path(new URL(".", import.meta.url)).replace(/\\/$/, "");
${plain}
${note}
${stepOf}
const _try = async (f) => { try { await f(); } catch { /* as it may */ } };
let _found;
// What is compared in a way of its own may be right although it is another: ~.
const _answer = (v, mode) => _found.push(mode === "part" ? note(v).replace(/^=/, "~") : mode instanceof Array ? note(stepOf(v, mode)) : note(mode === "truth" ? !!v : v, mode === "loose"));
for (const _question of [${bodies.join(",\n")}]) {
  _found = [];
  let _said;
  try {
    await _question();
    _said = _found.every((one) => one[0] === _found[0][0]) && _found.length > 0 ? _found[0][0] + _found.map((one) => one.slice(1)).join("\\n") : "!";
  } catch (e) {
    let text = "", place = "";
    try {
      text = String(e);
      place = /\\n +at .*?(?:file:\\/\\/)?(\\/[^\\n:]*):\\d+/.exec(e.stack)?.[1] ?? "";
    } catch { /* it has none */ }
    _said = e instanceof ReferenceError && / is not defined$/.test(text) ? "!" : "raised " + text.slice(0, 1000) + "\\n in " + place.replace(process.cwd() + "/", "");
  }
  _write(3, JSON.stringify(_said) + "\\n");
}
_write(3, "\\n");
`;
}

// Where Node does not strip types itself, it loads files without them, and finds them as compilers do.
const isTyped = (file) => /\.[cm]?ts$/.test(file);
const isStripped = process.features.typescript || request.options.some((option) => /-types$/.test(option));
const dataOf = (code) => `data:text/javascript,${encodeURIComponent(code)}`;
const findTyped = dataOf(`
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
const require = createRequire(${JSON.stringify(resolve("tree"))});
${withoutTypes}
${classOptions}
export async function resolve(specifier, context, next) {
  const others = [specifier, specifier + ".ts", specifier.replace(/js$/, "ts"), specifier + "/index.ts"];
  for (const other of specifier.startsWith(".") ? others : []) {
    try {
      return await next(other, context);
    } catch { /* the next may be there */ }
  }
  return next(specifier, context);
}
export async function load(url, context, next) {
  if (!/^file:.*\.[cm]?ts$/.test(url)) return next(url, context);
  const file = fileURLToPath(url);
  return { format: "module", shortCircuit: true, source: withoutTypes(file, readFileSync(file, "utf8")) };
}`);
const options = isStripped ? request.options : [...request.options, "--import", dataOf(`import { register } from "node:module"; register(${JSON.stringify(findTyped)});`)];
const optionsFor = (file) => (isTyped(file) ? options : request.options);

// begin starts a process that waits for a program.
function begin(questions) {
  const cwd = questions[0].apart ? tmpdir() : resolve(dirname(questions[0].file));
  mkdirSync(cwd, { recursive: true });
  const child = spawn(process.execPath, [...optionsFor(questions[0].file), "--input-type=module"], { cwd, stdio: ["pipe", "ignore", "ignore", "pipe"] });
  const answers = new Promise((end) => {
    let data = "";
    child.stdin.on("error", () => {}); // it has ended
    child.on("error", () => end(""));
    child.stdio[3].on("data", (more) => {
      data += more;
      if (data.endsWith("\n\n")) child.kill("SIGKILL");
    });
    child.on("close", () => end(data));
  });
  return { questions, child, answers };
}

// ask gives a process its program, and returns its answers, or why there are none.
async function ask({ questions, child, answers }) {
  let isLate = false;
  const timer = setTimeout(() => (isLate = true) && child.kill("SIGKILL"), PATIENCE);
  child.stdin.end(programOf(questions));
  const data = await answers;
  clearTimeout(timer);
  const said = data.trim() === "" ? [] : data.trim().split("\n").map((line) => JSON.parse(line));
  // What is not compiled as the project does may fail.
  if (!isStripped && isTyped(questions[0].file)) return { said: questions.map((_, i) => (said[i] ?? "!").replace(/^raised.*/s, "!")), isLate };
  while (said.length < questions.length) said.push(isLate ? "raised nothing, and hangs" : "raised nothing, and ended");
  return { said, isLate };
}

async function main() {
  const parts = request.groups.flatMap((group, at) => [...new Set(group.map((q) => q.file))].map((file) => ({ at, questions: group.filter((q) => q.file === file) })));
  const found = [], began = Date.now();
  let next = parts.length > 0 && begin(parts[0].questions);
  for (const [i, { at, questions }] of parts.entries()) {
    if (Date.now() - began > 1000 * request.patience) {
      (found[at] ??= []).push(...questions.map(() => "?late"));
      continue;
    }
    const running = next;
    next = parts[i + 1] && begin(parts[i + 1].questions);
    const { said, isLate } = await ask(running);
    (found[at] ??= []).push(...said);
    if (!isLate || questions[0].apart) continue;
    next?.child.kill("SIGKILL"); // nor would it answer the others
    break;
  }
  next?.child.kill("SIGKILL");
  writeFileSync(report, JSON.stringify(found));
}

main();
