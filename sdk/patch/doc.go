// Package patch finds the edits in a model's answer and works them out against
// a work tree, without writing to it.
//
// # Formats
//
// An answer may hold any number of edits, in any mix of these forms, and prose
// between them. Paths are relative to the root of the tree.
//
// A whole file is a block whose path is named: in the fence's info string, in a comment
// on the first line of the block, or on the line before the fence, which but for its
// decoration is the path, or a heading or a sentence with a colon that names one file.
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
// A block after other words than the path is [Edit.Mentioned]: the tree shows whether it
// is an edit. Tags, JSON and here-documents hold whole files as well.
//
// A search/replace block replaces one passage of a file. The passage must occur
// exactly once; an empty passage makes a new file.
//
//	calc/add.go
//	<<<<<<< SEARCH
//	return a - b
//	=======
//	return a + b
//	>>>>>>> REPLACE
//
// A unified diff, fenced or not, as git and diff -u write it. Line numbers are
// hints: a hunk is placed by its lines, and wrong counts do no harm; up to three lines of
// context at either end may be missing in the file where the rest fits one place. What stands between
// "*** Begin Patch" and "*** End Patch" is the same without numbers.
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
// new_string, patch (a unified diff), or hold such objects; and the same as JSON.
//
// A line that says that a file is deleted or renamed, and rm, mv and chmod +x in a block
// of shell commands.
//
// A block ends a file as the file ended before, with a newline or without.
//
// When the answer names no path at all and the verifier has a default file, the
// only, or else the last, fenced block is that file. What cannot be read is an [Error]
// with Unread.
package patch
