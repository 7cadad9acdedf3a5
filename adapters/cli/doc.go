// Package cli is the stepfall command: another client of the packages that applications use.
//
// Run is the whole program; adapters/cli/stepfall/main.go calls it. Each command has a file of its own (demo.go,
// eval.go), which holds only flags and printing; the packages below do the work.
package cli
