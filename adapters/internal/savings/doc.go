// Package savings computes, from traces of steps, what was spent, what always asking one model would have cost, and
// how good the answers were. It is the only place that does: the command, the pages, the metrics and the reports show
// a [Result].
//
// # What counts
//
// Everything in the traces is spend: calls, including failed ones, verdicts, embeddings and the runs of the mode
// shadow, which are also reported separately. Shadow runs are not steps of their own: what they would otherwise have
// cost is not a saving.
//
// The baseline's cost of a step is known where the baseline ran in it. On a step without an answer it is the cost of
// the baseline's own calls, 0 without any, so that a refused step saves nothing. Steps in which the baseline could
// not be asked, such as those of an agent that ran with another model alone, and embeddings are excluded from both
// sides of the comparison, but count as spend.
//
// Everywhere else the baseline's cost is that of the tokens of the returned answer, at the baseline's prices of that
// step. Prompts and answers are each multiplied by the ratio of the baseline's tokens to the other model's, on the
// steps where both answered; with fewer than five of these, by the ratio of what each used on its own. Hence it does
// not matter that the baseline is asked where prompts are long.
//
// The steps where both answered are usually disputed ones, in which one of the answers is wrong and of arbitrary
// length. If there are five steps in which both gave the same answer ([sdk.Call.Key]), only these are compared: the
// missing steps are those whose answer was good enough. Where the baseline was asked at random (explore), steps are
// weighted by the inverse of the probability; so are steps of the mode shadow whose shadow ended without the
// baseline, which are of just that kind. They are weighed against the others by their variances.
//
// Tool calls and texts are compared apart, as they differ in length. A holdout draws its runs at random: from 50 of
// its answers of a kind on, their mean length counts instead of the steps where both answered.
//
// A prompt contains the earlier answers of its run, whoever gave them. In the prompts of a baseline that is always
// asked they would be its own, shorter or longer: the visible tokens of answers that the prompts of a run repeat are
// converted by their ratio, also on steps in which the baseline was asked. That needs the name of the run or of the
// session. The number of steps of a run is left unchanged: only a holdout measures it.
//
// A model that is always asked finds its prompts cached. A baseline is assumed to have as many cache hits as the model
// that was asked or, where that one has none, as it had itself; where both were asked, it is not charged for a cold
// cache. If no model that was asked had been asked in the step before, the prompt of that step counts as cached. If it
// was asked five times without a hit, it is assumed to have no cache.
//
// The interval is two standard errors: of the ratios, by a jackknife over runs (in 32 groups, so that sums suffice,
// and with the variance of Student's t distribution where runs are few), of the runs in which the baseline is missing
// and, where no steps were drawn at random, of the possible bias of chosen ones: their mean may be off by 0.15
// standard deviations of single steps. No data show the true bias: the bound holds in simulated worlds in which the
// baseline is asked only where answers are wrong, of any length.
//
// Where steps had a single model to choose from, there is no baseline and no saving.
//
// # Quality
//
// Quality is the share of passed answers among the returned answers that verifiers passed or failed. The free checks,
// and verifiers that the policy uses in the same way, only find faults and measure nothing. Where nothing was
// measured, quality is guessed: the mean of the estimates of the returned answers.
package savings
