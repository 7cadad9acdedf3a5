// Calls a function of a file with arguments from standard input and writes what it
// returns. What the function itself prints goes to standard error.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const Module = require("node:module");

console.log = console.info = console.error;
const source = path.resolve(process.argv[2]);
const call = JSON.parse(fs.readFileSync(0, "utf8"));
const name = call.function.replace(/[^\w$]/g, "");
const module_ = new Module(source);
module_.filename = source;
module_.paths = Module._nodeModulePaths(path.dirname(source));
module_._compile(fs.readFileSync(source, "utf8") + `
;module.exports = {own: module.exports, function: typeof ${name} === "undefined" ? undefined : ${name}, Solution: typeof Solution === "undefined" ? undefined : Solution};`, source);
const { own, function: plain, Solution } = module_.exports;
const solution = Solution && new Solution();
const f = (solution && solution[name] && solution[name].bind(solution)) || plain || own[name];
Promise.resolve(f(...call.arguments)).then((result) => fs.writeSync(1, JSON.stringify(result === undefined ? null : result)));
