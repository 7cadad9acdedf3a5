// Package dialect holds the APIs of models, both sides of each: the requests, answers and
// streams of chat completions, Responses and Messages as a server reads and writes them
// ([API]), of these and of Gemini and Ollama as a client does ([Client]), whose state a part
// of a conversation is, and which limits a vendor sets ([Limits]). Between two APIs stands
// langchaingo's form with the parts and parameters of package middleware. The parameters
// that an API has a member for are one table, read and written by it.
//
// A server of an API needs little else:
//
//	root, refusal := dialect.Parse(body)
//	request, refusal := dialect.Chat.Read(root, r.Header)
//	json.Marshal(dialect.Chat.Answer(request, &dialect.Answer{Choices: ...}))
//
// Package gateway is one before a cascade, package scripted one with the answers of a
// function. A client writes a [Call] and reads the answer into a [Reply]:
//
//	client := dialect.Clients[middleware.DialectChat]
//	body, err := client.Write(&call)
//	reader := client.Reader(&reply) // Whole or each Event, then End
//	reply.Response()
//
// The packages under adapters/provider are such clients over HTTP.
//
// # Unknown members
//
// What a message or a part has beyond what is known here stands in a part before it, what
// parameters and tools have in Params.Extra, and what answers have in Extra.Unknown. It goes to
// models of the same API, and comes back from them.
//
// # State of a model
//
// What a model signs, encrypts or thinks goes back to that model alone: another one
// refuses it, or is misled by it. A provider marks such parts with its [Origin] and takes
// those of others out of a conversation with [Own]. Clients of a gateway are given them
// with a tag in the opaque text ([Seal], [Wrap]), which all clients send back as it is,
// and [Open] reads it: no server has to remember anything.
package dialect
