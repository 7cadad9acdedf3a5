package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Compare decides whether an output is the expected one.
type Compare struct {
	// By is exact (byte by byte), lines (ignoring trailing space and trailing blank lines), words, numbers
	// (words, with a tolerance for numbers), json, or any_order (lines in any order).
	By string
	// Tolerance is the largest difference of numbers in "numbers" and "json", absolute or relative to the
	// expected number.
	Tolerance float64
}

// Texts describes how got differs from want, or returns "". The description does not reveal want.
func (c Compare) Texts(want, got string) string {
	switch c.By {
	case "exact":
		if want != got {
			return "it differs"
		}
		return ""
	case "json":
		if !sameJSON(want, got, c.Tolerance) {
			return "it is another JSON value"
		}
		return ""
	case "words", "numbers":
		return c.words(strings.Fields(want), strings.Fields(got))
	}
	return c.lines(trimLines(want), trimLines(got))
}

func (c Compare) lines(want, got []string) string {
	if c.By == "any_order" {
		slices.Sort(want)
		slices.Sort(got)
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			if c.By == "any_order" {
				return "other lines"
			}
			return fmt.Sprintf("line %d differs", i+1)
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%d lines, not %d", len(got), len(want))
	}
	return ""
}

func (c Compare) words(want, got []string) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%d words, not %d", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] && (c.By != "numbers" || !c.close(want[i], got[i])) {
			return fmt.Sprintf("word %d differs", i+1)
		}
	}
	return ""
}

func (c Compare) close(want, got string) bool {
	if isWhole(want) && isWhole(got) {
		return sameWhole(want, got)
	}
	w, err := strconv.ParseFloat(want, 64)
	if err != nil {
		return false
	}
	g, err := strconv.ParseFloat(got, 64)
	return err == nil && withinTolerance(w, g, c.Tolerance) && (!isWhole(want) || roundsTo(want, got))
}

// roundsTo reports whether a number is nearer to an expected integer than to any other: whatever the
// tolerance, 1000001.0 and 1000000.9 do not equal 1000000.
func roundsTo(want, got string) bool {
	const digits = 256 // of precision, more than a float64 has
	w, _, err := big.ParseFloat(want, 10, digits, big.ToNearestEven)
	if err != nil {
		return false
	}
	g, _, err := big.ParseFloat(got, 10, digits, big.ToNearestEven)
	if err != nil {
		return false
	}
	apart := new(big.Float).Sub(g, w)
	return apart.Abs(apart).Cmp(big.NewFloat(0.5)) < 0
}

// isWhole reports whether a number is written as an integer. Integers are compared exactly, whatever the
// tolerance, including those that a float64 cannot represent.
func isWhole(number string) bool {
	digits := strings.TrimPrefix(number, "+")
	if digits == number {
		digits = strings.TrimPrefix(number, "-")
	}
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

func sameWhole(a, b string) bool {
	plain := func(s string) string {
		minus := strings.HasPrefix(s, "-")
		if s = strings.TrimLeft(s, "+-0"); minus && s != "" {
			return "-" + s
		}
		return s
	}
	return plain(a) == plain(b)
}

// withinTolerance is false for NaN.
func withinTolerance(want, got, tolerance float64) bool {
	return want == got || math.Abs(want-got) <= tolerance*max(1, math.Abs(want)) && !math.IsInf(want, 0)
}

// trimLines returns the lines without trailing space, and without trailing blank lines.
func trimLines(text string) []string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// decodeJSON decodes one JSON value, keeping numbers as they are written.
func decodeJSON(text string) (value any, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	return value, err == nil
}

func sameJSON(want, got string, tolerance float64) bool {
	w, ok := decodeJSON(want)
	g, also := decodeJSON(got)
	return ok && also && sameValue(w, g, tolerance)
}

func sameValue(want, got any, tolerance float64) bool {
	same := func(a, b any) bool { return sameValue(a, b, tolerance) }
	switch w := want.(type) {
	case json.Number:
		g, ok := got.(json.Number)
		return ok && (Compare{By: "numbers", Tolerance: tolerance}).close(w.String(), g.String())
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, same)
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && maps.EqualFunc(w, g, same)
	}
	return want == got
}
