// Package outcome holds recorded outcomes: what each model answered to each query,
// how good that was and what it cost.
//
// # A table
//
// A [Table] is queries by models. Its matrices have one row for each query and one
// entry for each model; NaN is what is not known, and never counts as zero. A
// matrix that nothing is known of is nil.
//
//	table, err := outcome.Open("runs.csv", outcome.Options{})
//	table, err = table.Select("gpt-4o-mini", "gpt-4o")
//	train, test := table.Split(0.5, 1)
//
// # Formats
//
// [Open] reads long CSV and JSON lines (one row for each query and model, with the
// columns query_id, group, model, quality, cost_usd, input_tokens, output_tokens,
// estimated_input_tokens, latency_seconds, answer, prompt, ante, post; any further
// column of numbers is a signal), RouterBench's wide CSV, the SWE-bench leaderboard's JSON and stepfall's
// own traces, each also compressed by gzip. It tells them apart by what they
// contain. A path with a star, such as results/*/instance_results/swe-bench.json,
// names the files of the OpenHands index, one for each model. Rows are read as a stream;
// errors name the file, the row and the column.
//
// # Units
//
// Quality is in [0, 1], cost in US dollars, latency in seconds.
//
// A Table is safe for concurrent reading. Nothing in this package modifies one that
// it was given.
package outcome
