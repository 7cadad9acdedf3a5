package patch

import (
	"fmt"
	"io/fs"

	"github.com/stepfall/stepfall/sdk"
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
	// Mentioned says that the file is named among other words, or a command or a sentence
	// says what becomes of it: the edit is left out where the tree shows that no more than
	// an illustration is meant.
	Mentioned bool
	// Spaced, when not empty, is the path if the tree has it: one with spaces in it.
	Spaced string
	// Near, when not empty, is the path if the tree has that file and lacks the first folder
	// of Path: that of the tree itself, or the root.
	Near string
	// Folders are those that a diff of two folders has before the path, old and new.
	Folders [2]string
	// Refused, when not empty, says why the edit cannot be made: a diff of a binary
	// file, of a symbolic link, of another repository.
	Refused string
	// Unread says that it is refused because it cannot be read.
	Unread bool
}

// hunk is one passage of a diff: the lines it expects and those it leaves.
type hunk struct {
	// Line is where the hunk says that it begins, from 1; 0 means unknown.
	Line     int
	Old, New []string
	// Anchors are lines that stand before the passage, each after the one before it.
	Anchors []string
	// NoNewline says that the new passage ends the file without a newline.
	NoNewline bool
}

// An Error says why an answer cannot be applied.
type Error struct {
	Path   string
	Reason string
	// Unread says that a part of the answer cannot be read, so that nothing is known of
	// what it means. Otherwise it is the answer's fault.
	Unread bool
}

// Outcome is the verdict on an answer that cannot be applied.
func (e *Error) Outcome() sdk.Outcome {
	if e.Unread {
		return sdk.Inconclusive
	}
	return sdk.Failed
}

// Error names the file and the reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}
