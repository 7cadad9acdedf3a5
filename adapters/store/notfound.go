// Package store is what may be asked of recorded steps, whichever engine keeps them.
package store

import "errors"

// ErrNotFound is wrapped where there is no such trace.
var ErrNotFound = errors.New("not in the store")
