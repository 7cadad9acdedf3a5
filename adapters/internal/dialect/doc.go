// Package dialect implements the APIs of model providers, on both sides. It reads requests and
// writes answers and streams of chat completions, Responses and Messages for servers ([API]), and
// does the reverse for clients of these APIs and of Gemini and Ollama ([Client]). It also tracks which
// model the state in a conversation belongs to, and adapts requests to each vendor's [Limits]. The
// common form between two APIs is langchaingo's, with the parts and parameters of package middleware.
// Parameters that an API has a member for are listed in one table for reading and writing.
//
// A server of an API needs little more than this:
//
//	root, refusal := dialect.Parse(body)
//	request, refusal := dialect.Chat.Read(root, r.Header)
//	json.Marshal(dialect.Chat.Answer(request, &dialect.Answer{Choices: ...}))
//
// Package gateway is such a server in front of a cascade, package scripted one that answers with a
// function's result. A client writes a [Call] and reads the answer into a [Reply]:
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
// Members of messages and parts that are not recognized here are kept in a part before it, those of
// parameters and tools in Params.Extra, and those of answers in Extra.Unknown. They are sent to models of
// the same API, and returned to its clients.
//
// # State of a model
//
// What a model signs, encrypts or thinks can be sent back only to that model: another model
// rejects it or is misled by it. A provider marks such parts with its [Origin] and removes
// those of other models from a conversation with [Own]. Clients of a gateway get them
// with a tag in the opaque text ([Seal], [Wrap]), which all clients send back unchanged,
// and [Open] reads the tag, so servers need not store anything.
package dialect
