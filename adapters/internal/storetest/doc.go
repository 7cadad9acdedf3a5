// Package storetest holds the tests that every engine of a store passes: SQLite, PostgreSQL,
// and PostgreSQL behind a pooler.
package storetest
