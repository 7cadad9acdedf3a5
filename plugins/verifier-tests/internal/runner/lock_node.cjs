// Loaded before the tests of each file: what judges cannot be replaced afterwards.
// See package runner.
"use strict";
function lock(module) {
  for (const owner of [module, module.strict, module.AssertionError && module.AssertionError.prototype]) {
    if (!owner) continue;
    for (const name of Reflect.ownKeys(owner)) {
      const property = Object.getOwnPropertyDescriptor(owner, name);
      if (property.configurable && typeof property.value === "function") {
        Object.defineProperty(owner, name, { value: property.value, enumerable: property.enumerable, writable: false, configurable: false });
      }
    }
  }
}
for (const name of ["node:assert", "node:assert/strict", "node:test"]) lock(require(name));
// The runner's tests are resources of asynchronous calls: through this their bodies
// are called, and by the other two such an object could be had, with its result.
const hooks = require("node:async_hooks");
lock(hooks.AsyncResource.prototype);
const { createHook, executionAsyncResource } = hooks;
const shown = (resource) => (/^(Test|Suite|TestHook)$/.test(resource?.constructor?.name) && resource instanceof hooks.AsyncResource ? {} : resource);
hooks.executionAsyncResource = () => shown(executionAsyncResource());
hooks.createHook = ({ init, ...rest }) =>
  createHook(typeof init === "function" ? { ...rest, init: (id, type, trigger, resource) => init(id, type, trigger, shown(resource)) } : { ...rest, init });
require("node:module").syncBuiltinESMExports();

// Code that is loaded before a test asks for them could answer in their place: they
// are handed out here, whatever it does to the loader.
const judges = Object.create(null);
for (const name of ["assert", "assert/strict", "test"]) judges["node:" + name] = require("node:" + name);
for (const name of ["assert", "assert/strict"]) judges[name] = require("node:" + name);
const apply = Reflect.apply;
function first(owner, name) {
  const wrappers = new WeakMap();
  const { get, set } = WeakMap.prototype;
  let current = owner[name];
  Object.defineProperty(owner, name, {
    get() {
      const inner = current;
      if (typeof inner !== "function") return inner;
      let wrapper = apply(get, wrappers, [inner]);
      if (!wrapper) {
        wrapper = function (request, ...rest) {
          return (typeof request === "string" && judges[request]) || apply(inner, this, [request, ...rest]);
        };
        apply(set, wrappers, [inner, wrapper]);
        apply(set, wrappers, [wrapper, wrapper]);
      }
      return wrapper;
    },
    set(value) {
      current = value;
    },
    configurable: false,
    enumerable: true,
  });
}
const Module = require("node:module");
first(Module, "_load");
first(Module.prototype, "require");
