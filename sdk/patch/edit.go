package patch

import (
	"fmt"
	"io/fs"

	"github.com/stepfall/stepfall/sdk"
)

type kind string

// The kinds of Edit.
const (
	whole   kind = "whole file"
	Replace kind = "search/replace"
	diff    kind = "diff"
)

// Edit is one edit of one file, as parsed from an answer.
type Edit struct {
	Kind kind
	// Path is relative to the tree and slash-separated.
	Path string
	// Content is the whole file, or the replacement.
	Content string
	// Search is the passage that Content replaces.
	Search string
	// Hunks are the hunks of a diff. From is the old path if the edit renames the file or, with Copy, copies
	// it.
	Hunks []hunk
	From  string
	Copy  bool
	// New and Delete mean that a diff creates or removes the file.
	New, Delete bool
	// Mode is the file's new mode; 0 leaves it unchanged.
	Mode fs.FileMode
	// Fenced means that the content comes from a block, which does not show whether its last line ends with
	// a newline: the file's old ending is kept.
	Fenced bool
	// Mentioned means that the file is named among other words, or changed by a command or a sentence. The
	// edit is dropped if the tree shows that it is only an illustration.
	Mentioned bool
	// Spaced, if not empty, is an alternative path with spaces, used if it exists in the tree.
	Spaced string
	// Near, if not empty, is an alternative path, used if it exists in the tree and the first folder of Path
	// does not. It lacks that folder, which can be the tree's own name or the root.
	Near string
	// Folders are the old and new folder that precede the path in a diff of two folders.
	Folders [2]string
	// Refused, if not empty, is the reason why the edit cannot be applied: it changes a binary file, a
	// symbolic link or a submodule, for instance.
	Refused string
	// Unread means that it is refused because it could not be parsed.
	Unread bool
}

// hunk is one hunk of a diff: the lines it expects and their replacement.
type hunk struct {
	// Line is the 1-based line number in the header; 0 means unknown.
	Line     int
	Old, New []string
	// Anchors are lines that occur before the passage, in this order.
	Anchors []string
	// NoNewline means that the new passage ends the file without a newline.
	NoNewline bool
}

// An Error is the reason why an answer cannot be applied.
type Error struct {
	Path   string
	Reason string
	// Unread means that a part of the answer could not be parsed, so its meaning is unknown. Otherwise the
	// answer is wrong.
	Unread bool
}

// Outcome returns the outcome of the verdict on the answer: Inconclusive if Unread, otherwise Failed.
func (e *Error) Outcome() sdk.Outcome {
	if e.Unread {
		return sdk.Inconclusive
	}
	return sdk.Failed
}

// Error returns the path and the reason.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}
