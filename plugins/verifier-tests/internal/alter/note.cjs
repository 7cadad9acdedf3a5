// What follows is in altered tests, too: in the syntax of ES2019, as records.cjs, since not all trees parse a later one.

// plain is what a value is in the language's own types, as text; marks has ? where it is
// none of them. A value that has no text is like no other.
function plain(v, marks) {
  if (typeof v === "string") return JSON.stringify(v);
  if (typeof v === "bigint") return v + "n";
  if (typeof v !== "object" || v === null) return typeof v === "function" || typeof v === "symbol" ? marks.add("?") && typeof v : String(v);
  const proto = Object.getPrototypeOf(v);
  if (Array.isArray(v) && proto === Array.prototype) return "[" + Array.from(v, (x) => plain(x, marks)) + "]";
  if (/^(Date|Map|Set)$/.test(proto && proto.constructor && proto.constructor.name) && Reflect.ownKeys(v).length > 0) marks.add("?");
  if (proto === Date.prototype) return Date.prototype.toISOString.call(v);
  if (proto === Set.prototype) return "Set{" + [...Set.prototype.values.call(v)].map((x) => plain(x, marks)).sort() + "}";
  if (proto === Map.prototype) return "Map{" + [...Map.prototype.entries.call(v)].map((x) => plain(x, marks)).sort() + "}";
  if (proto !== Object.prototype && proto !== null) return marks.add("?") && "?";
  return "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + plain(v[k], marks)) + "}";
}
// stepOf is the middle of the step of a width in which a number is.
function stepOf(v, [width, start]) {
  return typeof v === "number" ? start + (Math.floor((v - start) / width) + 0.5) * width : v;
}
function note(v, isLoose) {
  const marks = new Set();
  try {
    if (isLoose && typeof v !== "object" && v !== undefined) v = String(typeof v === "boolean" ? Number(v) : v);
    if (isLoose && v === undefined) v = null;
    const text = plain(v, marks);
    return (marks.size > 0 ? "?" : "=") + text.slice(0, 1 << 16);
  } catch {
    return "!";
  }
}
