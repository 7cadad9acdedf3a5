package patch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ReplaceOnce replaces the only occurrence of search in old by content. If search does not occur exactly,
// trailing space is ignored, and then indentation. The error is an *Error without a path.
func ReplaceOnce(old, search, content string) (string, error) {
	return new(work).replaceOnce(old, search, content)
}

func (w *work) replaceOnce(old, search, content string) (string, error) {
	if err := w.add(len(old) + len(search) + len(content)); err != nil {
		return "", err
	}
	if strings.TrimSpace(search) == "" {
		return "", &Error{Reason: "the passage to search for is empty"}
	}
	if !strings.HasSuffix(old, "\n") && strings.HasSuffix(old, strings.TrimSuffix(search, "\n")) {
		search = strings.TrimSuffix(search, "\n") // the end of a file without a final newline
	}
	n := strings.Count(old, search)
	switch {
	case n == 1 && !losesIndent(old, search, content):
		return strings.Replace(old, search, content, 1), nil
	case n > 1:
		return "", &Error{Reason: fmt.Sprintf("the passage to replace occurs %d times:\n%s", n, shorten(search))}
	}
	lines, tail := splitLines(old)
	want, _ := splitLines(search)
	have, _ := splitLines(content)
	if content == "" {
		have = nil
	}
	at, err := find(lines, want, 0)
	if err != nil && n == 1 {
		return strings.Replace(old, search, content, 1), nil
	}
	if err != nil {
		return "", &Error{Reason: fmt.Sprintf("the passage to replace %v:\n%s", err, shorten(search))}
	}
	lines = slices.Concat(lines[:at], reindent(have, want, lines[at:at+len(want)]), lines[at+len(want):])
	return strings.Join(lines, "\n") + tail, nil
}

// losesIndent reports whether the only occurrence of search begins after a line's indentation, which the
// later lines of content lack.
func losesIndent(old, search, content string) bool {
	at := strings.Index(old, search)
	lead := old[strings.LastIndexByte(old[:at], '\n')+1 : at]
	if lead == "" || strings.TrimSpace(lead) != "" {
		return false
	}
	lines, _ := splitLines(content)
	return slices.ContainsFunc(lines[1:], func(line string) bool { return strings.TrimSpace(line) != "" && !strings.HasPrefix(line, lead) })
}

// applyHunks applies the hunks of a diff, one after another.
func (w *work) applyHunks(edit Edit, old string) (string, error) {
	lines, tail := splitLines(old)
	if old == "" {
		lines, tail = nil, "\n"
	}
	shift, from := 0, 0
	for n, hunk := range edit.Hunks {
		// The cost of a search is added by locate; the lines after the hunk are copied.
		if err := w.add(size(hunk.Old) + size(hunk.New) + 8*len(lines)); err != nil {
			return "", err
		}
		at := len(lines)
		if len(hunk.Old) > 0 {
			var err error
			if at, hunk, err = w.locate(lines, hunk, from, shift); err != nil {
				return "", &Error{Path: edit.Path, Reason: fmt.Sprintf("hunk %d %v:\n%s", n+1, err, shorten(strings.Join(hunk.Old, "\n")))}
			}
		} else if hunk.Line > 0 {
			at = min(max(hunk.Line+shift, from), len(lines))
		}
		fresh := reindent(hunk.New, hunk.Old, lines[at:at+len(hunk.Old)])
		atEnd := at+len(hunk.Old) == len(lines)
		lines = slices.Concat(lines[:at], fresh, lines[at+len(hunk.Old):])
		if atEnd && hunk.NoNewline {
			tail = ""
		} else if atEnd {
			tail = "\n"
		}
		shift += len(hunk.New) - len(hunk.Old)
		from = at + len(fresh)
	}
	if len(lines) == 0 {
		return "", nil
	}
	return strings.Join(lines, "\n") + tail, nil
}

// locate finds the hunk: at its line number if its lines are there, otherwise at the only match after the
// previous hunk, or in the whole file, or of a part of its context. It returns the hunk as matched.
func (w *work) locate(lines []string, hunk hunk, from, shift int) (int, hunk, error) {
	if at := hunk.Line - 1 + shift; hunk.Line > 0 && at >= from && hunk.isAt(lines, at) {
		return at, hunk, nil
	}
	if err := w.add(size(lines)); err != nil {
		return 0, hunk, err
	}
	at, err := find(lines, hunk.Old, from)
	if err != nil && from > 0 {
		if before, all := find(lines, hunk.Old, 0); all == nil {
			return before, hunk, nil
		}
	}
	switch {
	case err == nil:
		return at, hunk, nil
	case !errors.Is(err, errSeveral):
		return w.locatePart(lines, hunk, from)
	}
	if start := anchor(lines, hunk.Anchors, from); start >= 0 {
		first, behind := find(lines, hunk.Old, max(start, from))
		if behind == nil || errors.Is(behind, errSeveral) {
			return first, hunk, nil
		}
	}
	return at, hunk, err
}

// isAt reports whether the hunk's old lines are at index at.
func (h *hunk) isAt(lines []string, at int) bool {
	return at <= len(lines)-len(h.Old) && slices.Equal(lines[at:at+len(h.Old)], h.Old)
}

// anchor returns the index of the line after the anchors, each of which is searched for after the previous
// one, starting at index from or else at the beginning. It returns -1 if one is missing.
func anchor(lines, anchors []string, from int) int {
	if len(anchors) == 0 {
		return -1
	}
	at := from
	for _, text := range anchors {
		next := slices.IndexFunc(lines[at:], func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), text) })
		if next < 0 && from > 0 {
			return anchor(lines, anchors, 0)
		}
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	return at
}

var (
	errSeveral = errors.New("matches several places")
	errNowhere = errors.New("is not in the file")
)

// find returns the index at which want occurs in lines at or after index from: exactly, or ignoring trailing space,
// or ignoring indentation. If it occurs more than once, find returns the first index and errSeveral.
func find(lines, want []string, from int) (int, error) {
	if len(want) == 0 {
		return 0, fmt.Errorf("is empty")
	}
	for _, as := range []func(string) string{nil, trimRight, strings.TrimSpace} {
		text, passage := lines, want
		if as != nil {
			text, passage = mapLines(lines, as), mapLines(want, as)
		}
		switch first, count := occurrences(text, passage, from); count {
		case 0:
		case 1:
			return first, nil
		default:
			return first, errSeveral
		}
	}
	return 0, errNowhere
}

func mapLines(lines []string, as func(string) string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = as(line)
	}
	return out
}

func trimRight(line string) string { return strings.TrimRight(line, " \t\r") }

// reindent gives the new lines the indentation of the file. Lines that are also in want are taken from the
// file. If every line of want lacks the same leading space, that space is added to the other lines.
func reindent(fresh, want, have []string) []string {
	if slices.Equal(want, have) {
		return fresh
	}
	shift := ""
	for i := range want {
		if strings.TrimSpace(want[i]) == "" {
			continue
		}
		lead, ok := strings.CutSuffix(have[i], want[i])
		if !ok || strings.TrimSpace(lead) != "" {
			shift = ""
			break
		}
		shift = lead
	}
	known := map[string]string{}
	for i := range want {
		known[want[i]] = have[i]
	}
	out := make([]string, len(fresh))
	for i, line := range fresh {
		switch original, ok := known[line]; {
		case ok:
			out[i] = original
		case strings.TrimSpace(line) == "":
			out[i] = line
		default:
			out[i] = shift + line
		}
	}
	return out
}

// splitLines splits a file into lines and its tail: a final newline or nothing.
func splitLines(s string) (lines []string, tail string) {
	if strings.HasSuffix(s, "\n") {
		s, tail = s[:len(s)-1], "\n"
	}
	return strings.Split(s, "\n"), tail
}
