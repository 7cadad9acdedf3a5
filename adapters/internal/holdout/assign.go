package holdout

import (
	"crypto/sha256"
	"encoding/binary"
)

// Assign reports whether a run goes the baseline's way, which a share of them does. It
// depends on its arguments alone: all processes with the same seed say the same of a run.
func Assign(run string, seed uint64, share float64) bool {
	text := binary.BigEndian.AppendUint64([]byte("stepfall holdout\x00"), seed)
	sum := sha256.Sum256(append(text, run...))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < share
}
