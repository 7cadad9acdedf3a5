// Package imports holds the test that keeps the packages' imports pointing one
// way. It has no code of its own.
package imports
