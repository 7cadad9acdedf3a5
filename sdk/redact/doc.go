// Package redact takes secrets out of texts before somebody else sees them: traces,
// logs, errors that clients are told.
//
//	r := redact.New(key)
//	log.Println(r.Text(err.Error()))
//
// It knows the secrets that it is given, in the forms in which programs write them, and
// what has the shape of a credential.
package redact
