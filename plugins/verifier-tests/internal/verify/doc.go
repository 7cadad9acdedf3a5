// Package verify is the verifier of verifier-tests: it puts an answer's edits
// into a work tree and lets the tests decide.
//
// # One verdict
//
// The untouched tree is tried first, once for all the answers to it
// (pre-flight): what cannot run there says nothing about an answer, and the
// verdict is Inconclusive. Then the answer's edits are worked out (package
// patch). Edits that do not fit the tree are the answer's fault: Failed. Edits of
// test files are left out and noted. The tests run in a jail (package jail) and
// their report is read (package runner). A failure is tried again: a test that
// then passes is flaky and does not decide.
//
// With Query.Checks the named tests decide, otherwise every test that the
// command runs.
package verify
