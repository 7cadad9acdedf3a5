// Package cli is the stepfall command: one more driver of the same packages that
// an application uses.
//
// Run is the whole program; adapters/cli/stepfall/main.go calls it. Each command
// is a file of its own (demo.go, eval.go), holds flags and printing only, and
// leaves the work to the packages below.
package cli
