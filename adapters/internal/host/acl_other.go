//go:build !linux

package host

// hasAccessList is only implemented on Linux.
func hasAccessList(string) bool { return false }
