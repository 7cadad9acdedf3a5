package outcome

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
)

// Hash returns the SHA-256, in hex, of everything in the table. Equal outcomes have the
// same hash, whatever file they came from.
func (t *Table) Hash() string {
	h := sha256.New()
	texts(h, t.Models)
	texts(h, t.Queries)
	texts(h, t.Groups)
	texts(h, t.Prompts)
	for _, m := range [][][]float64{t.Quality, t.CostUSD, t.InputTokens, t.OutputTokens, t.LatencySeconds, t.Ante, t.Post} {
		numbers(h, m)
	}
	count(h, len(t.Answers))
	for _, row := range t.Answers {
		texts(h, row)
	}
	for _, name := range t.SignalNames() {
		texts(h, []string{name})
		numbers(h, t.Signals[name])
	}
	for _, judge := range t.Judges() {
		texts(h, []string{colVerdict + judge})
		numbers(h, t.Verdicts[judge])
	}
	for _, m := range [][][]float64{t.Propensity, t.ToolTroubles, t.StepVerdicts, t.VerdictsUSD, t.EstimatedInputTokens} {
		if m != nil {
			numbers(h, m)
		}
	}
	if t.Verified {
		count(h, 1)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A hash.Hash never returns an error from Write.

func count(h hash.Hash, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = h.Write(b[:])
}

func texts(h hash.Hash, column []string) {
	count(h, len(column))
	for _, s := range column {
		count(h, len(s))
		_, _ = h.Write([]byte(s))
	}
}

func numbers(h hash.Hash, matrix [][]float64) {
	count(h, len(matrix))
	var b [8]byte
	for _, row := range matrix {
		for _, v := range row {
			bits := math.Float64bits(v)
			if math.IsNaN(v) {
				bits = 0x7ff8000000000001
			}
			binary.LittleEndian.PutUint64(b[:], bits)
			_, _ = h.Write(b[:])
		}
	}
}
