// Other values in the place of those that tests in JavaScript expect.

const ESCAPE = /\\(x[0-9a-f]{2}|u[0-9a-f]{4}|u\{\w+\}|[^])|%[a-z]/gi;
const pick = (from) => from[draw(from.length)];
const shifted = (by) => (c) => String.fromCharCode(c.charCodeAt(0) + by(c));

// nearText returns another text of the same length with the same classes of characters, as
// in text.go.
function nearText(text) {
  const plain = text.replace(ESCAPE, (e) => "\0".repeat(e.length));
  for (const [pattern, change] of [
    [/([2-9])/g, (c) => String(1 + draw(Number(c) - 1))],
    [/([01])/g, shifted(() => 1)],
    [/(?=([a-z]{2}|[A-Z]{2}))(?!(.)\2)/g, (pair) => pair[1] + pair[0]],
    [/([a-z])/g, (c) => pick("abcdefghijklmnopqrstuvwxyz".replace(c, ""))],
    [/([A-Z])/g, (c) => pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ".replace(c, ""))],
  ]) {
    const found = [...plain.matchAll(pattern)];
    // Few pairs would tell which changed places.
    if (found.length === 0 || (found.length < 3 && found[0][1].length === 2)) continue;
    const one = /\d/.test(found[0][1]) ? found.at(-1) : pick(found);
    const changed = change(one[1]);
    return text.slice(0, one.index) + changed + text.slice(one.index + changed.length);
  }
  return text + word();
}

// longerText returns a text that is longer by some of its own letters.
function longerText(text) {
  const own = text.replace(ESCAPE, "").match(/[a-z0-9]/gi) || "abcdefghijklmnopqrstuvwxyz";
  const last = text.includes("\\") ? -1 : text.search(/[a-z0-9][^a-z0-9]*$/i);
  const end = last < 0 ? text.length : last + 1;
  return text.slice(0, end) + Array.from({ length: 3 + draw(3) }, () => pick(own)).join("") + text.slice(end);
}

// otherNumber returns one with as many digits, and as many of them 0 at its end. What is
// next to 0 may be of the other sign.
function otherNumber(value, part, isNear) {
  if (part) return String(value + 1 + draw(97));
  if (isNear && !Number.isInteger(value)) return String(value).replace(/^(-?0?\.?0*[1-9]|\d)/, nearText);
  if (isNear && value > 0) return String(pick(Array.from({ length: 19 }, (_, i) => value - 9 + i).filter((n) => n > 0 && n !== value && String(n).length === String(value).length)));
  if (!Number.isInteger(value)) return `${value < 0 && draw(2) ? "-" : ""}${draw(3 * Math.ceil(Math.abs(value)) + 9)}.${draw(999)}${1 + draw(9)}`;
  const zeros = value ? 10 ** String(value).match(/0*$/)[0].length : 1;
  const low = 10 ** (String(Math.abs(value)).length - 1) / zeros;
  let found = value;
  while (found === value) found = (low > 1 ? low + draw(9 * low) : draw(10)) * zeros * (value < 2 && draw(2) ? -1 : 1);
  return String(found);
}
// farText returns letters and nothing of another text.
const farText = (text) => Array.from({ length: 3 + draw(3 + text.length) }, () => pick("abcdefghijklmnopqrstuvwxyz")).join("");

// other returns what takes the place of a literal with that text: garbage where what has few others would
// say by each of them what it was.
function other(literal, old, garbage, part, isNear) {
  const value = valueOf(literal);
  if (value === null || value === undefined || (typeof value === "boolean" && !isNear)) return JSON.stringify(garbage);
  if (typeof value === "number") return otherNumber(value, part, isNear);
  if (typeof value === "boolean") return String(!value);
  return old[0] + (part ? longerText : isNear ? nearText : farText)(old.slice(1, -1)) + old.slice(-1);
}
