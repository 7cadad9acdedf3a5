// Package cases runs a program on inputs and compares what it puts out with what is
// expected, which never enters the process, nor the file system, that the program
// sees.
//
// [Load] reads cases: LiveCodeBench's rows, APPS-style inputs and outputs, folders
// of files, JSON. [Case.Plan] says how a case is put to a program (standard input,
// arguments, files, a call of a function, HTTP), [Case.Check] what came of it.
package cases
