// Package savings computes, from traces of steps, what was spent, what one model asked
// always would have cost, and how good the answers were. It is the one place that does:
// the command, the pages, the metrics and the reports show a [Result].
//
// # What counts
//
// Everything in the traces is spent: calls, failed ones too, verdicts, embeddings and the
// runs of the mode shadow, which are named apart. Shadow runs are no steps of their own:
// what they would have cost instead is not saved.
//
// The baseline's cost of a step is known where the baseline ran in it. On a step that
// nobody answered it is what the baseline's own calls cost, 0 where it was not called, so
// that a refused step saves nothing. Steps that the baseline could not be asked, as where
// an agent ran with another model alone, and embeddings have no part in the comparison: what they cost is spent, and on neither side of it. Everywhere else it is what the first decision
// expected of it, times the ratio of real to expected cost where the baseline ran or, when
// that is fewer than five steps, of all models together. The interval is two standard
// errors: of that ratio, and of the single costs around it.
//
// Where steps had one model to choose from there is no baseline, and nothing is saved.
//
// # Quality
//
// Quality is the share of the returned answers that verifiers passed, of those that they
// passed or failed. The free checks only ever find faults, as do verifiers that the policy
// uses so: they measure nothing. Where nothing was measured, quality is guessed: the mean
// of the estimates of the returned answers.
package savings
