// Package wire holds both ends of the protocol between stepfall and its plugins,
// version 1, in terms of package sdk. Hosts use [Client]; plugins use [Register],
// through package plugin. The messages themselves are in
// sdk/plugin/proto/stepfall/plugin/v1/plugin.proto, which other languages
// generate their code from.
//
// # Faithfulness
//
// What goes in on one end comes out at the other, with three exceptions:
// Answer.Raw and functions stay in their process; bytes that are not UTF-8 become
// U+FFFD, except in tokens and in binary data, which may be any bytes; and empty
// slices and maps become nil.
//
// # Trust
//
// A [Client] checks all that a plugin returns: as many results as items, as many
// estimates as models, numbers within their range, exactly one verdict. What
// breaks a rule becomes an error, never a number that a strategy would use.
package wire
