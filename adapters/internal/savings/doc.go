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
// not matter that the baseline is asked where prompts are long.
//
// The steps where both answered are as a rule those in dispute, in which one of the answers is
// wrong and as long as it happens to be. Where there are five in which both say the same
// ([sdk.Call.Key]), these alone are compared: what is missing are steps whose answer was good
// enough. Where chance asked the baseline (explore), steps count by how seldom it does; so do
// steps of the mode shadow whose shadow ended without the baseline, which are of just that
// kind. They are weighed against the others by their variances.
//
// A prompt has the earlier answers of its run in it, of whoever gave them. In the prompts of a
// baseline that is always asked they are its own, shorter or longer: the visible tokens of
// answers that the prompts of a run repeat are exchanged at their ratio, also on steps that the
// baseline was asked in. That needs the name of the run or of the session. How many steps a run
// takes is left as it is: a holdout measures it.
//
// Who is always asked finds its prompts cached. A baseline that was seen to cache is taken
// to find as much cached as the model that was asked or, where that one does not cache, as
// it found itself; where both were asked it is not charged for having come late.
//
// The interval is two standard errors: of the ratios, by a jackknife over runs (in 32 groups,
// so that sums are enough, and with the variance of Student's distribution where runs are few), of what runs are in which it is missing, and, where no steps were drawn at random,
// of what those that were chosen leave open: their mean may be off by 0.15 standard deviations
// of single steps. No data say how far it is: that bound is where it holds in simulated
// worlds in which the baseline is asked on wrong answers alone, of any length.
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
