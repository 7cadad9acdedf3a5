//go:build !unix

package host

import "io/fs"

// writable is only implemented on Unix.
func writable(string, fs.FileInfo) string { return "" }

func alive(int) bool { return true }
