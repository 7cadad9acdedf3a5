// Package eval replays strategies over recorded outcomes and measures them.
//
// # The shape of a comparison
//
// A table of outcomes holds the results of every model on every query of a test half: the truth.
// A [Player] is a strategy at a sweep of lambdas, with a [replay.Source] of beliefs that
// was fitted on a train half. [Replay] replays every query at every lambda: it gets
// the beliefs given the models run so far from the source, asks the strategy for a
// decision, looks up the cost of the chosen model, and so on until the strategy
// stops. The strategy never sees an outcome that it has not paid for.
//
// [Measure] turns the [Sample] of a replay into a [Curve] of mean quality against mean cost, and
// [Curve.Measure] computes its [Metrics] relative to the [Frame] of the single models.
// [Study] does all of this for several strategies, with two-sigma intervals by a
// bootstrap over the queries, paired between strategies.
//
// # Units
//
// Quality and AUC are in [0, 1] everywhere in this package and in its JSON; tables
// and figures show them in per cent. Costs are in US dollars per query.
//
// # Randomness
//
// Coins and resamples depend on a seed and an index, never on a shared generator, so
// results do not depend on the number of cores.
package eval
