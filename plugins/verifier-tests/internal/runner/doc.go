// Package runner knows test commands: how to call each so that it reports its
// tests one by one, what it needs of the machine, and how to read what it says.
//
// A [Runner] plans a run ([Plan]) and reads its output ([Report]). Which runner
// serves a command is found by [For]: go test, pytest, unittest, node --test,
// cargo test, anything that writes a JUnit file, and anything else by its exit code.
package runner
