// Package clients contains only tests of the gateway with clients of its APIs.
//
// An upstream in the tests serves chat completions, Responses and Messages and rejects
// what their vendors reject, in the same words; each of its rules names its source. In front of
// it are nine cascades of a small and a large model, one for each pair of APIs. In "go test",
// plain HTTP clients send the requests; testdata/broken-*.txt list the cells that do not
// work yet, and a test fails when another one breaks or one of them works. "make clients" uses
// the official clients and prints the table of docs/gateway.md.
package clients
