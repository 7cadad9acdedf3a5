// Calls a function of a file with arguments from standard input and writes what it
// returns. What the function itself prints goes to standard error.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");
const Module = require("node:module");

console.log = console.info = console.error;
const source = path.resolve(process.argv[2]);
const text = fs.readFileSync(source, "utf8");
const call = JSON.parse(fs.readFileSync(0, "utf8"));
const name = call.function.replace(/[^\w$]/g, "");
const declared = `{function: typeof ${name} === "undefined" ? undefined : ${name}, Solution: typeof Solution === "undefined" ? undefined : Solution}`;

function isScript() {
  try {
    new vm.Script(Module.wrap(text));
    return true;
  } catch {
    return false;
  }
}

// load returns what the file exports, and what it declares.
async function load() {
  if (isScript()) {
    const script = new Module(source);
    script.filename = source;
    script.paths = Module._nodeModulePaths(path.dirname(source));
    script._compile(`${text}\n;module.exports = {own: module.exports, declared: ${declared}};`, source);
    return script.exports;
  }
  const copy = path.join(path.dirname(source), ".stepfall-module.mjs");
  fs.writeFileSync(copy, `${text}\n;export const stepfallDeclared = ${declared};`);
  const own = await import(copy);
  return { own, declared: own.stepfallDeclared };
}

load().then(async ({ own, declared: { function: plain, Solution } }) => {
  const solution = Solution && new Solution();
  const f = (solution && solution[name] && solution[name].bind(solution)) || plain || own[name] || (own.default && own.default[name]) || own.default;
  const result = await f(...call.arguments);
  fs.writeSync(1, JSON.stringify(result === undefined ? null : result));
});
