package holdout

import (
	"crypto/sha256"
	"encoding/binary"
)

// Assign reports whether a run uses the baseline, which holds for a share of all runs. It depends only on its
// arguments, so all processes with the same seed agree.
func Assign(run string, seed uint64, share float64) bool {
	text := binary.BigEndian.AppendUint64([]byte("stepfall holdout\x00"), seed)
	sum := sha256.Sum256(append(text, run...))
	return float64(binary.BigEndian.Uint64(sum[:])>>11)/(1<<53) < share
}
