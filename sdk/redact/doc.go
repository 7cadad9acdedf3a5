// Package redact removes secrets from texts before others see them: traces, logs,
// and errors that clients receive.
//
//	r := redact.New(key)
//	log.Println(r.Text(err.Error()))
//
// It finds the secrets that it is given, in every encoding that decoders undo (percent encoding,
// entities, escapes, base64, hexadecimal, also nested), and anything with the shape of a
// credential. Text is decoded until nothing changes; each decoded byte keeps its position in the
// original. Secrets of 16 letters and digits or more are also found by their letters and digits
// alone, with any other characters between them, in base32, base64 and hexadecimal too, and with
// up to two fifths missing at the ends.
// them, in base32, base64 and hexadecimal digits too, and without up to two fifths at the ends.
package redact
