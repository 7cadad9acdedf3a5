// Package verify is the verifier of verifier-tests: it applies an answer's edits to
// a work tree and lets the tests decide.
//
// # One verdict
//
// First the tests run on the untouched tree, once for all answers to it (the
// pre-flight): if they cannot run there, they say nothing about an answer, and the
// verdict is Inconclusive. Then the answer's edits are parsed and applied (package
// patch). If they do not fit the tree, the answer is Failed. Edits of test files are
// dropped and noted. The tests run in a jail (package jail) and their report is parsed
// (package runner). A failure is retried: a test that then passes is flaky and does not
// decide.
//
// With Query.Checks the named tests decide, otherwise every test that the command runs.
package verify
