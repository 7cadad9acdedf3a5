// Package peers measures the gateway beside a plain proxy: it holds nothing but that
// measurement, which "make peers" runs.
package peers
