// Package containertest makes a small image for tests, of the programs of this
// machine, without a registry.
package containertest
