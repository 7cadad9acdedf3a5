// Package containertest builds a small image for tests from programs of this machine, without a
// registry.
package containertest
