// Package pgtest starts a PostgreSQL of its own for tests: made by initdb, as an
// ordinary user, on a socket in a folder of its own, gone with the test.
package pgtest
