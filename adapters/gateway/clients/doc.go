// Package clients holds nothing but tests of the gateway with clients of its APIs.
//
// An upstream in the tests serves chat completions, Responses and Messages and refuses
// what their vendors refuse, in their words; each of its rules names its source. Before
// it stand nine cascades of a small and a large model, one for each pair of APIs. Plain
// HTTP clients ask them in "go test"; testdata/broken-*.txt list the cells that do not
// work yet, and a test fails as soon as one breaks or one works. "make clients" asks with
// the official clients and prints the table of docs/gateway.md.
package clients
