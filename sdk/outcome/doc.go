// Package outcome holds recorded outcomes: each model's answer to each query, its
// quality and its cost.
//
// # Tables
//
// A [Table] is queries by models. Its matrices have one row for each query and one
// entry for each model. NaN means unknown, and never counts as zero. A matrix without
// any known value is nil.
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
// column of numbers is a signal), RouterBench's wide CSV, the SWE-bench leaderboard's
// JSON and stepfall's own traces, all optionally compressed with gzip. It detects the
// format by the content. A path with a star, such as results/*/instance_results/swe-bench.json,
// matches the files of the OpenHands index, one for each model. Rows are read as a stream;
// errors name the file, the row and the column.
//
// # Units
//
// Quality is in [0, 1], cost in US dollars, latency in seconds.
//
// A Table is safe for concurrent reads. Nothing in this package modifies a table passed
// to it.
package outcome
