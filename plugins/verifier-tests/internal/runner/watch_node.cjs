// Loaded before anything of the work tree in each process of tests: it keeps what tests judge
// by, and notes when they end what of it was changed, and which files looked at what calls them.
// See package runner.
"use strict";
const { readFileSync, realpathSync, writeFileSync } = require("node:fs");
const assert = require("node:assert");
const Module = require("node:module");
const { fileURLToPath } = require("node:url");
const { runInNewContext } = require("node:vm");

// Returns a set of the files whose functions read a stack that they have made themselves.
function watchStacks() {
  const files = new Set(), capture = Error.captureStackTrace;
  let own; // how the tree has stacks written
  const withoutPlace = (call) => String(call).replace(/:\d+:\d+(\)?)$/, "$1");
  // The call that reads the stack which is being written.
  function reader() {
    const holder = {};
    capture(holder, write);
    const calls = String(holder.stack).split("\n    at ").slice(1);
    return withoutPlace(calls.find((call) => !call.includes("(node:internal/errors:")) ?? "");
  }
  function write(error, sites) {
    const call = reader(), file = call.match(/(?:file:\/\/)?\/[^()]*/);
    if (file && sites.length > 0 && call === withoutPlace(sites[0])) files.add(file[0].replace(/^file:.*/, fileURLToPath));
    return own ? own.call(Error, error, sites) : [describeError(error), ...sites].join("\n    at ");
  }
  // As Node has it, whose own errors have their code there.
  const isOfNode = (error) => Object.getOwnPropertySymbols(error).some((key) => key.description === "kIsNodeError");
  function describeError(error) {
    try {
      return isOfNode(error) || isOfNode(Object.getPrototypeOf(error) ?? {}) ? `${error.name} [${error.code}]: ${error.message}` : Error.prototype.toString.call(error);
    } catch {
      return "<error>";
    }
  }
  Object.defineProperty(Error, "prepareStackTrace", { configurable: true, get: () => write, set: (f) => void (own = f === write ? undefined : f) });
  return files;
}

function watch(file) {
  process.execArgv = process.execArgv.filter((argument) => !argument.startsWith("--require=./.stepfall-")); // other processes are none of tests
  // What the tests replace themselves, and do not put back.
  const text = readFileSync(file, "utf8");
  const isOfTests = Set.prototype.has.bind(new Set([
    ...text.matchAll(/(?:global(?:This)?\.)?([\w.]+)\s*=[^=]/g),
    ...text.matchAll(/([\w.]+,\s*["'`]\w+)["'`]/g),
    ...text.matchAll(/(?:\bmock\.timers|FakeTimers)/g),
  ].map(([, name]) => name?.replace(/,\s*["'`]/, ".").replace(/^global(This)?\./, "") ?? "Date")));
  const describe = Reflect.getOwnPropertyDescriptor;
  const places = [];
  function keep(name, object) {
    for (const key of Reflect.ownKeys(object)) {
      const { value, get } = describe(object, key);
      const full = name + (typeof key === "symbol" ? `[${key.description}]` : `${name && "."}${key}`);
      if (typeof (value ?? get) === "function" && key !== "prepareStackTrace") places.push({ object, key, value, get, full });
    }
  }
  for (const name of runInNewContext("Object.getOwnPropertyNames(globalThis)")) {
    const value = globalThis[name];
    if (name === "globalThis" || name === "console" || (typeof value !== "function" && typeof value !== "object")) continue;
    places.push({ object: globalThis, key: name, value, full: name });
    keep(name, value);
    if (value.prototype) keep(name + ".prototype", value.prototype);
  }
  for (const iterator of [[].values(), "".matchAll(/a/g), new Map().values(), new Set().values(), ""[Symbol.iterator](), (function* () {})(), new Uint8Array()]) {
    for (let proto = Reflect.getPrototypeOf(iterator); proto !== Object.prototype; proto = Reflect.getPrototypeOf(proto)) keep(`[${iterator[Symbol.toStringTag] ?? "iterator"}]`, proto);
  }
  keep("assert", assert);
  keep("assert.strict", assert.strict);
  keep("test", require("node:test"));
  keep("Module", Module);
  keep("Module.prototype", Module.prototype);
  const util = require("node:util");
  for (const key of Object.keys(util)) void util[key]; // some of it is there when it is first asked for
  keep("util", util);
  keep("performance", Reflect.getPrototypeOf(performance));
  const callers = watchStacks();
  const { env } = process;
  const zone = env.TZ;
  process.on("exit", () => {
    const changed = env.TZ === zone || isOfTests("process.env.TZ") ? [] : ["process.env.TZ"];
    for (let i = 0; i < places.length; i++) {
      const { object, key, value, get, full } = places[i];
      const now = describe(object, key);
      if ((now?.value !== value || now?.get !== get) && !isOfTests(full)) changed.push(full);
    }
    writeFileSync(`${__dirname}/changed-${process.pid}`, JSON.stringify({ file: realpathSync(file), changed, callers: [...callers] }));
  });
}

if (process.env.NODE_TEST_CONTEXT && process.argv[1] && require("node:worker_threads").isMainThread) watch(process.argv[1]);
