// Package patch finds the edits in a model's answer and works them out against
// a work tree, without writing to it.
//
// # Formats
//
// An answer may hold any number of edits, in any mix of four forms, and prose
// between them. Paths are relative to the root of the tree.
//
// A whole file is a fenced block with its path: in the fence's info string, on
// the line before the fence, or in a comment on the first line of the block.
//
//	```go path=calc/add.go
//	package calc
//	...
//	```
//
//	calc/add.go:
//	```go
//	package calc
//	...
//	```
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
// hints: a hunk is placed by its lines, and wrong counts do no harm.
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
// new_string, patch (a unified diff), or a list of such in edits; and a block that
// holds such arguments as JSON.
//
// A block ends a file as the file ended before, with a newline or without.
//
// When the answer names no path at all and the verifier has a default file, the
// only, or else the last, fenced block is that file.
package patch
