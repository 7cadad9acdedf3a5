// Package demo shows what stepfall is for on the bundled repair tasks. Each model
// answers each task once and real unit tests judge the answers, in the plugin
// verifier-tests (package collect). To the outcomes of one half of the tasks estimators
// and strategies are fitted, for several budgets (package fit); the step engine then decides
// about the recorded answers to the other half (package forecast), and the other way round,
// so that no task is solved with what it taught.
package demo
