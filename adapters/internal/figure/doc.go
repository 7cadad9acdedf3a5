// Package figure draws lines, heat maps and the curves of comparisons, and writes them
// as PNG and SVG.
package figure
