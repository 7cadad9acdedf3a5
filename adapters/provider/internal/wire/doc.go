// Package wire is the HTTP client of a dialect, which the providers are made of: where a
// model is asked, one pool of connections, bounded answers, parameters that a server does
// not support, and errors with all that it said.
package wire
