//go:build !unix

package plugin

// claimStdout does nothing: there is no portable way to duplicate a handle.
func claimStdout() error { return nil }

func killOwnGroup() {}
