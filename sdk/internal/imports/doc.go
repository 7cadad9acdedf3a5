// Package imports has a test that enforces the direction of the packages' imports. It has no other code.
package imports
