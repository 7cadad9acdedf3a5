// Package patch parses the edits in a model's answer and applies them to the
// files of a work tree in memory, without writing to the tree.
//
// # Formats
//
// An answer can have any number of edits, in any mix of these formats, with prose
// between them. Paths are relative to the root of the tree.
//
// A whole file is a fenced block with a path: in the fence's info string, in a comment
// on the first line of the block, or on the line before the fence. That line consists
// of the path and decoration, or is a heading or a sentence with a colon that names one
// file.
//
//	```go path=calc/add.go
//	package calc
//	...
//	```
//
//	### 1. `calc/add.go` - the sign
//	```go
//	package calc
//	...
//	```
//
// If that line has other words than the path, the edit is [Edit.Mentioned]: the tree
// decides whether it is an edit. Tags, JSON and here-documents also hold whole files.
//
// A search/replace block replaces one passage of a file. The passage must occur
// exactly once; an empty passage creates a file.
//
//	calc/add.go
//	<<<<<<< SEARCH
//	return a - b
//	=======
//	return a + b
//	>>>>>>> REPLACE
//
// A unified diff, fenced or not, as written by git and diff -u. Line numbers are
// hints: a hunk is located by its lines, and wrong counts are ignored. Up to three
// lines of context at either end can be missing from the file if the rest matches at
// one place only. Text between "*** Begin Patch" and "*** End Patch" is a diff without
// line numbers.
//
//	--- a/calc/add.go
//	+++ b/calc/add.go
//	@@ -1,3 +1,3 @@
//	 func Add(a, b int) int {
//	-	return a - b
//	+	return a + b
//	 }
//
// A tool call whose arguments have path and content, path with old_string and
// new_string, patch (a unified diff), or contain such objects; and the same as JSON.
//
// A line which says that a file is deleted or renamed, and the commands rm, mv and
// chmod +x in a block of shell commands.
//
// A fenced block keeps the file's final newline, or its absence.
//
// If the answer names no path and the verifier has a default file, that file is the
// last fenced block, preferably one in its language. An answer that cannot be parsed
// is an [Error] with Unread.
package patch
