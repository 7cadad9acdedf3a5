// Package storetest says what every engine of a store must do, as a test that each of
// them runs.
package storetest
