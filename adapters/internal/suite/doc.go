// Package suite holds the bundled SWE-style tasks: six small repositories made for this project and defects in them,
// graded so that models of different strength differ.
//
// Each file of repos/ is a repository whose tests pass. Each file of tasks/ names its repository, its level and the
// tests that fail; break.txt introduces the defect (reversed it is the fix), and small.txt, medium.txt and large.txt
// are the wrong changes of scripted models. A model without a file makes the correct change.
//
// The tasks have the difficulties of real ones: defects over several files, reports that name three problems at once,
// statements that point at the wrong place, a test that never ends, a slow one and a flaky one.
package suite
