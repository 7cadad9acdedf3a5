package patch

import (
	"errors"
	"slices"
	"strings"
)

// maxFuzz is the number of context lines at either end of a hunk that can be missing from the file. At
// least leastLines non-empty lines must match.
const (
	maxFuzz    = 3
	leastLines = 2
)

// locatePart locates a hunk whose outermost context lines are not in the file. It drops as few of them as
// possible; the rest, which it returns, must match at one place only.
func (w *work) locatePart(lines []string, whole hunk, from int) (at int, part hunk, err error) {
	part = whole
	for fuzz := 1; fuzz <= 2*maxFuzz; fuzz++ {
		if err := w.add((fuzz + 1) * (size(lines) + size(whole.Old))); err != nil {
			return 0, whole, err
		}
		isFound, start := false, 0
		for above := range fuzz + 1 {
			less, ok := whole.trimContext(above, fuzz-above)
			if !ok {
				continue
			}
			place, err := find(lines, less.Old, from)
			if errors.Is(err, errSeveral) || err == nil && isFound && place-above != start {
				return 0, whole, errNowhere
			}
			if err == nil && !isFound {
				isFound, at, part, start = true, place, less, place-above
			}
		}
		if isFound {
			return at, part, nil
		}
	}
	return 0, whole, errNowhere
}

// trimContext returns the hunk without that many context lines above and below, if it has them and enough
// is left. If the hunk only adds lines, non-blank context must remain on each side.
func (h hunk) trimContext(above, below int) (hunk, bool) {
	start := commonStart(h.Old, h.New)
	end := len(h.Old) - min(commonEnd(h.Old, h.New), len(h.Old)-start)
	last := len(h.Old) - below
	if above > min(start, maxFuzz) || below > min(len(h.Old)-end, maxFuzz) {
		return h, false
	}
	if isAdded := start == end; isAdded && (start > 0 && allBlank(h.Old[above:start]) || end < len(h.Old) && allBlank(h.Old[end:last])) {
		return h, false
	}
	h.Old, h.New = h.Old[above:last], h.New[above:len(h.New)-below]
	return h, len(slices.DeleteFunc(slices.Clone(h.Old), isBlank)) >= leastLines
}

func commonStart(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func commonEnd(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

func allBlank(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !isBlank(line) })
}
