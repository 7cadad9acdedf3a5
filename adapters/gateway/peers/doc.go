// Package peers contains only a benchmark that compares the gateway with a plain proxy, which "make peers"
// runs.
package peers
