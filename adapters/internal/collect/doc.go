// Package collect runs every model of a policy on sample tasks and records the outcomes, the input of fits and
// evaluations.
//
// Each model answers each task once, through the policy's own clients, checks and verifiers; the verdict is the
// quality. Outcomes are appended to a file, one JSON object per line, each synced. A second run on the same file does
// what is missing and pays for nothing twice; a kill loses only the calls in flight.
package collect
