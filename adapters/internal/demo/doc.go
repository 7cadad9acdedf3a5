// Package demo shows what stepfall is for on the bundled repair tasks. Each model
// answers each task once and real unit tests judge the answers, in the plugin
// verifier-tests (package collect). To what came of one half of the tasks estimators
// and strategies are fitted, for several budgets (package fit); the other half is then
// solved through adapters/router with what was learnt, and the other way round, so that
// every task is solved by somebody who has not seen it.
//
// What a model answered to a request, and how an answer to a task was judged, is
// remembered for the run: asked again, it is the same, at the same cost.
package demo
