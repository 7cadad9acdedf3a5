package wire

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/stepfall/stepfall/sdk"
)

// Count is a number of tokens as servers tell it: some write 12.0, 1.2e1 or "12". What
// is no whole number, or below 0, is -1: no answer is lost for its bill, and the engine
// sees that the bill cannot be right. null is 0.
type Count int

// AnyBroken reports whether one of the counts is no number of tokens. A usage with such a
// count is [BrokenUsage].
func AnyBroken(counts ...Count) bool {
	return slices.ContainsFunc(counts, func(c Count) bool { return c < 0 })
}

// BrokenUsage is a usage that the engine does not believe.
var BrokenUsage = sdk.Usage{InputTokens: -1}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	n, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	const most = 1 << 50
	switch {
	case math.IsInf(n, 1), n > most: // also too large for a float
		n = most
	case err != nil, !(n >= 0), n != math.Trunc(n):
		n = -1
	}
	*c = Count(n)
	return nil
}
