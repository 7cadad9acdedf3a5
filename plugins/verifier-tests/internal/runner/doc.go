// Package runner knows test commands: how to run each so that it reports every test,
// what it needs from the machine, and how to parse its output.
//
// A [Runner] plans a run ([Plan]) and parses its result ([Report]). [For] selects the
// runner for a command: go test, pytest, unittest, node --test, Maven, Gradle, cargo
// test, any command that writes a JUnit file, and any other by its exit code or by the tests
// of jest, vitest, mocha and tape that it runs.
package runner
