// Package redact takes secrets out of texts before somebody else sees them: traces,
// logs, errors that clients are told.
//
//	r := redact.New(key)
//	log.Println(r.Text(err.Error()))
//
// It knows the secrets that it is given, in all writings that decoders undo (percent encoding,
// entities, escapes, base64, hexadecimal digits, also within one another), and what has the
// shape of a credential. Text decoded to a fixpoint is searched, by where each byte came from.
// Secrets of 16 letters and digits or more are also found by these alone, whatever lies between
// them, in base32, base64 and hexadecimal digits too, and without up to two fifths at the ends.
package redact
