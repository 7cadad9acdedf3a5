// Package scaffold writes the files of a new plugin project: a program that builds, has passing tests and conforms to
// the protocol, for its author to change. stepfall plugin new uses it.
package scaffold
