//go:build !linux

package host

import "os"

// execPath returns "": open files cannot be executed here.
func execPath(*os.File) (string, error) { return "", nil }
