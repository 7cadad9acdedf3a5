// Package redact takes secrets out of texts before somebody else sees them: traces,
// logs, errors that clients are told.
//
//	r := redact.New(key)
//	log.Println(r.Text(err.Error()))
//
// It knows the secrets that it is given, in all writings that decoders undo (percent encoding,
// entities, escapes, base64, hexadecimal digits, also within one another), and what has the
// shape of a credential. Text decoded to a fixpoint is searched, by where each byte came from.
package redact
