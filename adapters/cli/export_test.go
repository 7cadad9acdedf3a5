package cli

// Exit codes, which tests outside the package compare with.
const (
	ExitFailure = exitFailure
	ExitOK      = exitOK
	ExitUsage   = exitUsage
)
