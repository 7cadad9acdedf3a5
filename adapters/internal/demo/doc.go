// Package demo shows the effect of stepfall on the bundled repair tasks. Each model answers each task once, and real
// unit tests judge the answers in the plugin verifier-tests (package collect). Estimators and strategies are fitted
// to the outcomes of one half of the tasks, for several budgets (package fit); the step engine then decides on the
// recorded answers to the other half (package forecast), and vice versa, so that no task is solved by a fit that has
// seen it.
package demo
