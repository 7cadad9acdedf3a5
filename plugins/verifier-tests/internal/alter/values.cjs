// Other values in the place of those that tests in JavaScript expect.

const pick = (from) => from[draw(from.length)];

// otherNumber returns one with as many digits, and as many of them 0 at its end. What is
// next to 0 may be of the other sign.
function otherNumber(value) {
  if (!Number.isInteger(value)) return `${value < 0 && draw(2) ? "-" : ""}${draw(3 * Math.ceil(Math.abs(value)) + 9)}.${draw(999)}${1 + draw(9)}`;
  const zeros = value ? 10 ** String(value).match(/0*$/)[0].length : 1;
  const low = 10 ** (String(Math.abs(value)).length - 1) / zeros;
  let found = value;
  while (found === value) found = (low > 1 ? low + draw(9 * low) : draw(10)) * zeros * (value < 2 && draw(2) ? -1 : 1);
  return String(found);
}
// otherText returns letters and nothing of another text.
const otherText = (text) => Array.from({ length: 3 + draw(3 + text.length) }, () => pick("abcdefghijklmnopqrstuvwxyz")).join("");

// other returns what takes the place of a literal with that text: garbage where what has few others would
// say by each of them what it was.
function other(literal, old, garbage) {
  const value = valueOf(literal);
  if (value === null || value === undefined || typeof value === "boolean") return JSON.stringify(garbage);
  return typeof value === "number" ? otherNumber(value) : old[0] + otherText(old.slice(1, -1)) + old.slice(-1);
}
