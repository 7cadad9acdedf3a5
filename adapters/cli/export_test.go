package cli

// Exit codes for tests outside the package.
const (
	ExitFailure = exitFailure
	ExitOK      = exitOK
	ExitUsage   = exitUsage
)
