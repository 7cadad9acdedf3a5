// The reporter of the process that starts the test files, which are processes of
// their own. See package runner.
import { createHmac } from "node:crypto";
import { unlinkSync, writeFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const key = "@KEY@";
const report = resolve("@REPORT@");
unlinkSync(fileURLToPath(import.meta.url));

export default async function* sealed(source) {
  const tests = [];
  const files = new Set();
  for await (const { type, data } of source) {
    if ((type !== "test:pass" && type !== "test:fail") || data.details?.type === "suite") continue;
    const file = data.file ? relative(process.cwd(), data.file) : "";
    if (file !== "" && !file.startsWith("..")) files.add(file);
    const whole = file !== "" && (data.name === data.file || data.name === file);
    if (whole && type === "test:pass") continue; // older versions report each file as a test
    let status = type === "test:pass" ? "pass" : "fail";
    if (data.skip !== undefined && data.skip !== false) status = "skip";
    if (data.todo !== undefined && data.todo !== false) status = "skip";
    const error = data.details?.error;
    const output = status === "fail" ? String(error?.cause?.stack ?? error?.cause ?? error?.message ?? "") : "";
    tests.push({ Group: file, Name: whole ? "(file)" : data.name, Status: status, Output: output });
  }
  const text = JSON.stringify(tests);
  const more = JSON.stringify({ files: [...files] });
  writeFileSync(report, text);
  writeFileSync(report + ".more", more);
  writeFileSync(report + ".seal", createHmac("sha256", key).update(text + "\0" + more).digest("hex"));
}
