// Package tasks holds the bundled repair tasks: small Go packages with a real defect, unit tests that fail because of
// it, and the answers of three scripted models of different strength.
//
// Each file of repair/ is one task in txtar form. Its comment has the level (1 easy to 3 hard) and the problem
// statement; its files are the package, its tests and fix.txt, the reference answer. A file small.txt, medium.txt or
// large.txt is that model's wrong answer; a model without one answers as fix.txt does. The wrong answers are typical
// of real models: half of the defect fixed, a boundary forgotten, an argument modified.
package tasks
