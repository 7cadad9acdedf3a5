package patch

import (
	"fmt"
	"io/fs"
)

// kind says which form an edit has.
type kind string

// The kinds of Edit.
const (
	whole   kind = "whole file"
	Replace kind = "search/replace"
	diff    kind = "diff"
)

// Edit is one edit to one file, as the answer states it.
type Edit struct {
	Kind kind
	// Path is relative to the tree, slash-separated.
	Path string
	// Content is the whole file, or the replacement.
	Content string
	// Search is the passage that Content replaces.
	Search string
	// Hunks are those of a diff; From is the old path when the diff renames or, with
	// Copy, copies.
	Hunks []hunk
	From  string
	Copy  bool
	// New and Delete say that a diff makes or removes the file.
	New, Delete bool
	// Mode is that which a diff gives the file; 0 leaves it as it is.
	Mode fs.FileMode
	// Fenced says that the content is a block, which does not show whether its last line
	// ends: it ends as that of the file did.
	Fenced bool
	// Refused, when not empty, says why the edit cannot be made: a diff of a binary
	// file, of a symbolic link, of another repository.
	Refused string
}

// hunk is one passage of a diff: the lines it expects and those it leaves.
type hunk struct {
	// Line is where the hunk says that it begins, from 1; 0 means unknown.
	Line     int
	Old, New []string
	// NoNewline says that the new passage ends the file without a newline.
	NoNewline bool
}

// An Error says why an answer cannot be applied. It is the answer's fault.
type Error struct {
	Path   string
	Reason string
}

// Error names the file and the reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}
