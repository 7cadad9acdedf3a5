// Package wire implements both ends of version 1 of the protocol between stepfall
// and its plugins, in terms of package sdk. Hosts use [Client]; plugins use
// [Server], through package plugin. The messages are defined in
// sdk/plugin/proto/stepfall/plugin/v1/plugin.proto, from which other languages
// generate their code.
//
// # Faithfulness
//
// Values arrive as they were sent, with three exceptions: Answer.Raw and functions
// stay in their process; invalid UTF-8 becomes U+FFFD, except in tokens and binary
// data, which can hold any bytes; and empty slices and maps become nil.
//
// # Trust
//
// A [Client] checks everything that a plugin returns: the number of estimates, the
// range of every number, exactly one verdict. A violation becomes an error, never a
// number that reaches a strategy.
package wire
