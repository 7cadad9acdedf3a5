//go:build !unix

package plugin

// claimStdout does nothing: there is no portable way to move a handle.
func claimStdout() error { return nil }

func killOwnGroup() {}
