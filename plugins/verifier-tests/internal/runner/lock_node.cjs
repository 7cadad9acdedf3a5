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
