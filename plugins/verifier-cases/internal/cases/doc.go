// Package cases runs a program on test cases and compares its output with the
// expected output, which never enters the process or the file system that the program
// can see.
//
// [Load] reads cases from LiveCodeBench rows, APPS-style inputs and outputs, folders of
// files, and JSON. [Case.Plan] prepares a run of a program on a case (standard input,
// arguments, files, a function call, HTTP), and [Case.Check] compares its result.
package cases
