// Package collect runs every model of a policy on sample tasks and records the
// outcomes: what a fit and an evaluation work on.
//
// Each model answers each task once, by the policy's own clients, checks and
// verifiers; the verdict is the quality. Outcomes are appended to a file, one JSON
// object a line, synced as they come. A second run on the same file does what is
// missing and pays for nothing twice; what was under way when a run was killed is
// all that can be lost.
package collect
