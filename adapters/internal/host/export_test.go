package host

// Names that only tests outside the package use.
type (
	CallError        = callError
	ConfigError      = configError
	UnavailableError = unavailableError
)

var (
	ErrNotFound = errNotFound
)
