// Package storetest holds the conformance tests for every engine of a store: SQLite, PostgreSQL, and PostgreSQL
// behind a pooler.
package storetest
