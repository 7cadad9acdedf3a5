// Package wire is what the providers share below their clients: one pool of
// connections, bounded answers, errors with all that the server said, and the small
// conversions that every dialect needs.
package wire
