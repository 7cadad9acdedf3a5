// Package clients runs the official clients of the gateway's dialects against it: it
// holds nothing but their test. "make clients" runs all of them and prints the table
// of docs/gateway.md.
package clients
