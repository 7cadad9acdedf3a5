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
// an agent ran with another model alone, and embeddings have no part in the comparison:
// what they cost is spent, and on neither side of it.
//
// Everywhere else the baseline's cost is that of the tokens of the answer that was returned,
// at the baseline's prices of that step. Prompts and answers are each multiplied by the
// ratio of the baseline's tokens to the other model's, on the steps where both answered;
// where those are fewer than five, by the ratio of what each used on its own. So it does
// not matter that the baseline is asked where prompts are long. A prompt is the one that
// was sent: what another answer would have changed in later steps is not counted.
//
// Who is always asked finds its prompts cached. A baseline that was seen to cache is taken
// to find as much cached as the model that was asked, and where both were asked it is not
// charged for having come late.
//
// The interval is two standard errors: of the ratios, and of single steps round them.
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
