// Package view serves the web pages that show what agents asked, what was decided, spent and saved, and why.
//
//	lines, err := view.OpenLines(ctx, "traces.jsonl", nil)
//	if err != nil { ... }
//	defer lines.Close()
//	handler := view.New(view.Options{Traces: lines})
//
// The pages read traces through store.TraceReader, which every store of package store implements. They are rendered
// by html/template on the server and readable without scripts, which add curves, sliders and live updates. [Export]
// writes the same pages as files.
//
// # Why
//
// A decision is recomputed by the strategy that made it, from the beliefs in its trace, at any lambda: the slider
// shows what the engine would do.
//
// # Untrusted text
//
// Prompts, answers and errors are untrusted. They are text in every page, never markup, with control and direction
// characters made visible. A content security policy allows only this package's scripts and styles, no requests to
// other servers, and no markup made from strings in scripts (Trusted Types).
//
// # Access
//
// [Local] protects pages on the user's own machine: a token that opens one session, and checks of host and origin.
// [RequireKey] requires an operator's key.
package view
