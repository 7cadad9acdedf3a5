// Package view is what people look at: pages that show what was asked, decided,
// spent and saved, and why.
//
//	lines, err := view.OpenLines(ctx, "traces.jsonl", nil)
//	if err != nil { ... }
//	defer lines.Close()
//	handler := view.New(view.Options{Traces: lines})
//
// The pages read traces by store.TraceReader, which every store of package store is. They
// are made by html/template on the server: they can be read without scripts, which
// add curves, sliders and updates. [Export] writes the same pages as files.
//
// # Why
//
// A decision is taken again by the strategy that took it, from the beliefs in its
// trace, at any lambda: what the slider shows is what the engine would do.
//
// # Hostile texts
//
// Prompts, answers and errors are written by others. They are text in every page,
// never markup, with control and direction characters made visible; a content
// security policy allows scripts and styles of this package only and no request
// elsewhere, and forbids making markup of strings in scripts (Trusted Types).
//
// # Access
//
// [Local] guards a page on the own machine: a token that opens one session, hosts and
// origins checked. [Keyed] asks for an operator's key.
package view
