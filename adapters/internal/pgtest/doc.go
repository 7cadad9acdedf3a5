// Package pgtest starts a private PostgreSQL for tests: initialised by initdb, running as an ordinary user, on a
// socket in a folder of its own, and removed with the test.
package pgtest
