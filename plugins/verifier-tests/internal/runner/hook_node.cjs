// Loaded first in each process of Node that a command starts. In the one that runs jest, vitest, mocha or tape it
// takes the key of the report before anything of the tree is loaded, and writes the report when the tests have
// ended. See package runner.
"use strict";
const { createHmac } = require("crypto");
const { readFileSync, realpathSync, unlinkSync, writeFileSync } = require("fs");
const Module = require("module");
const { dirname, join, relative } = require("path");
const { fileURLToPath } = require("url");
const { isMainThread } = require("worker_threads");

const root = realpathSync(dirname(__dirname)), keyFile = join(__dirname, "key");
const { stringify } = JSON;
const sign = (key, text) => createHmac("sha256", key).update(text).digest("hex");
let key, isTaken = false;

// take returns whether this is the process that reports.
function take() {
  if (isTaken) return false;
  try {
    key = readFileSync(keyFile, "utf8");
    unlinkSync(keyFile); // of two at a time one succeeds
    isTaken = true;
  } catch {
    return false;
  }
  // Code under test, and what it starts, has the options of its user.
  process.env.NODE_OPTIONS = (process.env.NODE_OPTIONS || "").replace(/^--require="[^"]*" ?/, "");
  if (process.env.NODE_OPTIONS === "") delete process.env.NODE_OPTIONS;
  return true;
}

function seal(tests) {
  if (!key) return;
  const text = stringify(tests);
  writeFileSync(join(__dirname, "report"), `${sign(key, text)} ${text}`);
  key = "";
}

function fileOf(path) {
  try {
    return relative(root, realpathSync(path));
  } catch {
    return "";
  }
}

const textOf = (errors) => errors.map((e) => String((e && (e.stack || e.message)) || e)).join("\n");
// The calls of frameworks and of Node are not the same in each run of a test.
const foreignCalls = /^ +at .*(node:|node_modules\/|\.stepfall-|<anonymous>).*\n?|\x1b\[\d+m/gm;
const maxOutput = 8192; // a report must not be too long to be kept
// test returns one as it is reported; titles are those of what it lies in, and its own.
const test = (file, titles, status, output = "") => ({ Group: file, Name: titles[titles.length - 1], Within: titles.slice(0, -1), Status: status, Output: status === "fail" ? output.slice(-maxOutput).replace(foreignCalls, "") : "" });
const wholeFile = (file, errors) => test(file, ["(file)"], "fail", textOf(errors));

class JestReporter {
  constructor() {
    forget();
  }
  onRunComplete(_, { testResults }) {
    const status = { passed: "pass", failed: "fail" };
    seal(testResults.flatMap(({ testFilePath, testResults: all, testExecError, failureMessage }) => {
      const file = fileOf(testFilePath);
      const whole = testExecError || (failureMessage && all.length === 0) ? [wholeFile(file, [failureMessage || testExecError])] : [];
      return [...whole, ...all.map((t) => test(file, [...t.ancestorTitles, t.title], status[t.status] || "skip", (t.failureMessages || []).join("\n")))];
    }));
  }
}

class VitestReporter {
  onInit(vitest) {
    this.vitest = vitest;
  }
  onTestRunEnd(_, unhandled = []) {
    const status = { pass: "pass", fail: "fail" };
    const testsOf = (task, file, titles) => {
      const { errors = [], state } = task.result || {};
      if (!task.tasks) return [test(file, titles, status[state] || "skip", textOf(errors))];
      const whole = errors.length > 0 || (state === "fail" && task.tasks.length === 0) ? [wholeFile(file, errors)] : [];
      return [...whole, ...task.tasks.flatMap((t) => testsOf(t, file, [...titles, t.name]))];
    };
    const tests = this.vitest.state.getFiles().flatMap((task) => testsOf(task, fileOf(task.filepath), []));
    seal(unhandled.length > 0 ? [...tests, wholeFile("", unhandled)] : tests);
  }
  onFinished(files, unhandled) {
    this.onTestRunEnd(files, unhandled); // as older versions call it
  }
}

function watchMocha({ prototype }) {
  const tests = [], { run } = prototype;
  const titlesOf = (t) => (t.type === "hook" ? [...t.titlePath().slice(0, -1), `(${t.title})`] : t.titlePath());
  const add = (status) => (t, error) => tests.push(test(fileOf(t.file), titlesOf(t), status, textOf([error])));
  prototype.run = function (...given) {
    prototype.run = run; // others are run by tests
    take();
    if (key) this.on("pass", add("pass")).on("fail", add("fail")).on("pending", add("skip")).once("end", () => seal(tests));
    return run.apply(this, given);
  };
}

// callerOf is the file of the tree that calls something.
function callerOf() {
  const paths = String(new Error().stack).match(/(file:\/\/)?\/[^():]+(?=:\d+:\d+\)?$)/gm) || [];
  const path = paths.map((at) => (at.startsWith("file:") ? fileURLToPath(at) : at)).find((at) => at !== __filename && !at.includes("/node_modules/"));
  return path ? fileOf(path) : "";
}

const UNENDED = "it has not ended";
function watchTape(Test) {
  const tests = [], placeOf = new WeakMap(), suites = new Set();
  const { run } = Test.prototype;
  Test.prototype.run = function (...given) {
    const { file, titles } = placeOf.get(this) || { file: "", titles: [] };
    const one = test(file, [...titles, this.name], "fail", UNENDED);
    tests.push(one);
    let asserts = false;
    this.on("test", (inner) => {
      if (!asserts) suites.add(one); // which is no test
      placeOf.set(inner, { file, titles: [...titles, this.name] });
    });
    this.on("result", (r) => {
      if (typeof r !== "object") return; // a comment
      asserts = true;
      suites.delete(one);
      if (!r.ok && !r.todo && !r.skip) Object.assign(one, test(file, [...titles, this.name], "fail", `${one.Output.replace(UNENDED, "")}${r.name}: ${textOf([r.error])}\n`));
    });
    this.prependListener("end", () => { // before those that run the next test
      if (one.Output === UNENDED) Object.assign(one, { Status: this._skip || this._todo ? "skip" : "pass", Output: "" });
    });
    return run.apply(this, given);
  };
  process.on("exit", () => seal(tests.filter((t) => !suites.has(t))));
  return new Proxy(Test, {
    construct(...given) {
      const made = Reflect.construct(...given);
      placeOf.set(made, { file: callerOf(), titles: [] });
      return made;
    },
  });
}

// watchModules has the first framework that is loaded watched.
function watchModules() {
  const load = Module._extensions[".js"];
  function watching(module, file) {
    load.call(this, module, file);
    const [, name] = /\/node_modules\/(mocha\/lib\/runner|mocha\/lib\/cli\/cli|tape\/lib\/test)\.js$/.exec(file) || [];
    if (name === "mocha/lib/runner") return watchMocha(module.exports); // also in a process that starts another one for it
    if (!name || !take()) return;
    if (Module._extensions[".js"] === watching) Module._extensions[".js"] = load;
    if (name === "tape/lib/test") module.exports = watchTape(module.exports);
  }
  Module._extensions[".js"] = watching;
}

// addReporter adds one to the arguments of this process, after its own.
function addReporter(option, reporter) {
  if (!take()) return;
  const { argv } = process, at = argv.includes("--") ? argv.indexOf("--") : argv.length;
  const isOwn = argv.some((word) => word === option || word.startsWith(option + "="));
  argv.splice(at, 0, ...(isOwn ? [] : [option + "=default"]), `${option}=${reporter}`);
}

// forget leaves nothing of this module that code could find.
function forget() {
  module.exports = {};
  delete require.cache[__filename];
}

function start(program) {
  if (/\/node_modules\/(jest(-cli)?\/bin\/jest\.js|\.bin\/jest)$/.test(program)) {
    addReporter("--reporters", __filename);
    module.exports = JestReporter; // until jest has it
    return;
  }
  if (/\/node_modules\/(vitest\/vitest\.mjs|\.bin\/vitest)$/.test(program)) {
    const name = Symbol.for(__filename);
    globalThis[name] = VitestReporter;
    const source = `const name = Symbol.for(${stringify(__filename)}), reporter = globalThis[name]; delete globalThis[name]; export default reporter;`;
    addReporter("--reporter", `data:text/javascript,${encodeURIComponent(source)}`);
  } else {
    watchModules();
  }
  forget();
}

if (isMainThread) {
  let program = "";
  try {
    program = realpathSync(process.argv[1]);
  } catch {
    // it has none
  }
  start(program);
}
