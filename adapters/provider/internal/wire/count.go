package wire

import (
	"bytes"
	"math"
	"strconv"
)

// Count is a number of tokens as servers tell it: some write 12.0, 1.2e1 or "12". What
// is no number, or below 0, is 0, which is known of nothing: no answer is lost for its
// bill, and none takes away from the bill of what it is a part of.
type Count int

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err != nil && math.IsInf(n, 0) {
		err = nil // too large for a float: as large as can be
	}
	if err != nil || math.IsNaN(n) {
		n = 0
	}
	const most = 1 << 50
	*c = Count(math.Ceil(min(max(n, 0), most)))
	return nil
}
