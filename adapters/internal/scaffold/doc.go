// Package scaffold writes the files of a new plugin project: a program that
// builds, has tests that pass and conforms to the protocol, for its author to
// change. It is what `stepfall plugin new` does.
package scaffold
