// The reporter of the process that starts the test files, which are processes of
// their own. See package runner.
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync, realpathSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const key = "@KEY@";
const report = resolve("@REPORT@");
unlinkSync(fileURLToPath(import.meta.url));

export default async function* sealed(source) {
  const tests = [];
  const nested = new Map(); // by file, the tests whose outermost block has not ended
  const files = new Set();
  for await (const { type, data } of source) {
    if (type !== "test:pass" && type !== "test:fail") continue;
    const file = data.file ? relative(process.cwd(), data.file) : "";
    // What lies within has ended just before, one level deeper.
    const ended = nested.get(file) ?? [];
    nested.set(file, ended);
    for (let i = ended.length - 1; i >= 0 && ended[i].level > data.nesting; i--) {
      ended[i].Within.unshift(data.name);
      ended[i].level = data.nesting;
    }
    if (data.nesting === 0) ended.length = 0;
    if (data.details?.type === "suite") continue;
    if (file !== "" && !file.startsWith("..")) files.add(file);
    const whole = file !== "" && (data.name === data.file || data.name === file);
    if (whole && type === "test:pass") continue; // older versions report each file as a test
    let status = type === "test:pass" ? "pass" : "fail";
    if (data.skip !== undefined && data.skip !== false) status = "skip";
    if (data.todo !== undefined && data.todo !== false) status = "skip";
    const error = data.details?.error;
    const output = status === "fail" ? String(error?.cause?.stack ?? error?.cause ?? error?.message ?? "") : "";
    const test = { Group: file, Name: whole ? "(file)" : data.name, Within: [], Status: status, Output: output, level: data.nesting };
    tests.push(test);
    if (data.nesting > 0) ended.push(test);
  }
  // What the processes of tests noted when they ended, and which of them say nothing of it.
  const watched = new Set(), replaced = new Set(), callers = new Set(), dir = dirname(report);
  for (const name of readdirSync(dir).filter((name) => name.startsWith("changed-"))) {
    const noted = JSON.parse(readFileSync(resolve(dir, name), "utf8"));
    watched.add(noted.file);
    for (const one of noted.changed) replaced.add(one);
    for (const one of noted.callers) callers.add(relative(process.cwd(), one));
  }
  const isRun = (file) => /(^|\/)test\/|(^|\/)test-|[-_.]?test\.\w+$/.test(file) || process.argv.some((argument) => resolve(argument) === resolve(file));
  const isApart = !process.execArgv.some((argument) => /isolation=none/.test(argument));
  for (const file of isApart ? files : []) {
    if (isRun(file) && !watched.has(realpathSync(file))) replaced.add(`what ends the process of ${file}`);
  }
  const text = JSON.stringify(tests);
  const more = JSON.stringify({ files: [...files], replaced: [...replaced].sort(), callers: [...callers].sort() });
  writeFileSync(report, text);
  writeFileSync(report + ".more", more);
  writeFileSync(report + ".seal", createHmac("sha256", key).update(text + "\0" + more).digest("hex"));
}
