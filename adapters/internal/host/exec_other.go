//go:build !linux

package host

import "os"

// execPath returns "": open files cannot be executed on this platform.
func execPath(*os.File) (string, error) { return "", nil }
