// Package dialect holds what the APIs of models have in common and where they differ:
// whose state a part of a conversation is, and which limits a vendor sets.
//
// # State of a model
//
// What a model signs, encrypts or thinks goes back to that model alone: another one
// refuses it, or is misled by it. A provider marks such parts with its [Origin] and takes
// those of others out of a conversation with [Own]. Clients of a gateway are given them
// with a tag in the opaque text ([Seal], [Wrap]), which all clients send back as it is,
// and [Open] reads it: no server has to remember anything.
package dialect
