// Package eval replays strategies over recorded outcomes and measures them.
//
// # The shape of a comparison
//
// A table of outcomes holds what every model did on every query of a test half: the truth.
// A [Player] is a strategy at a sweep of lambdas, with a [replay.Source] of beliefs that
// was fitted on a train half. [Replay] plays every query at every lambda: it asks
// the source what is believed given the models run so far, asks the strategy what
// to do, looks up what the model that was chosen cost, and so on until the strategy
// stops. What the strategy did not pay for it never sees.
//
// [Measure] makes of the [Sample] of a replay a [Curve], mean cost against mean quality, and
// [Curve.Measure] gives its [Metrics] in the [Frame] of the single models.
// [Study] does all of it for several strategies, with two-sigma intervals by a
// bootstrap over the queries, paired between strategies.
//
// # Units
//
// Quality and AUC are in [0, 1] everywhere in this package and in its JSON; tables
// and figures print them in per cent. Costs are in US dollars per query.
//
// # Randomness
//
// Coins and resamples follow from a seed and an index, never from a shared
// generator: results are the same whatever the number of cores.
package eval
