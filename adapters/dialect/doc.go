// Package dialect is what the APIs of models are: how their requests are read and their
// answers and streams written ([Chat], [Messages], [Responses]), whose state a part of a
// conversation is, and which limits a vendor sets ([Limits]). Between two APIs stands
// langchaingo's form with the parts and parameters of package middleware.
//
// A server of an API needs little else:
//
//	root, refusal := dialect.Parse(body)
//	request, refusal := dialect.Chat.Read(root, r.Header)
//	json.Marshal(dialect.Chat.Answer(request, &dialect.Answer{Choices: ...}))
//
// Package gateway is one before a cascade, package scripted one with the answers of a
// function.
//
// # State of a model
//
// What a model signs, encrypts or thinks goes back to that model alone: another one
// refuses it, or is misled by it. A provider marks such parts with its [Origin] and takes
// those of others out of a conversation with [Own]. Clients of a gateway are given them
// with a tag in the opaque text ([Seal], [Wrap]), which all clients send back as it is,
// and [Open] reads it: no server has to remember anything.
package dialect
