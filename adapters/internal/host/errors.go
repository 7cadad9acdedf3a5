package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

var (
	// errNotFound means that no program with the plugin's name is in the search path.
	errNotFound = errors.New("plugin not found")
	// errChecksum means that the program is not the one that the operator pinned.
	errChecksum = errors.New("plugin checksum mismatch")
	// errClosed means that the host is closed.
	errClosed = errors.New("plugin host closed")
)

// isPermanent reports whether starting the plugin again cannot help.
func isPermanent(err error) bool {
	var config *configError
	return errors.As(err, &config) || errors.Is(err, errChecksum) || errors.Is(err, jail.ErrLacks)
}

// unavailableError says that an instance cannot be called now. It is
// [sdk.ErrPluginUnavailable] to errors.Is.
type unavailableError struct {
	Instance, Plugin string
	// Reason is what happened: it crashed, did not start, did not answer.
	Reason string
	// Until is when the next start will be tried; zero means with the next call.
	Until time.Time
	// Err is the cause, when there is one.
	Err error
}

func (e *unavailableError) Error() string {
	text := fmt.Sprintf("plugin %s (%s) is unavailable: %s", e.Plugin, e.Instance, e.Reason)
	if !e.Until.IsZero() {
		text += fmt.Sprintf("; next start after %s", e.Until.Format(time.TimeOnly))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *unavailableError) Is(target error) bool { return target == sdk.ErrPluginUnavailable }

func (e *unavailableError) Unwrap() error { return e.Err }

// configError says that a plugin refused its config. The instance stays down.
type configError struct {
	Instance, Plugin string
	Diagnostics      schema.Diagnostics
}

func (e *configError) Error() string {
	return fmt.Sprintf("plugin %s refuses the config of %s:\n  %s", e.Plugin, e.Instance,
		strings.ReplaceAll(e.Diagnostics.Error(), "\n", "\n  "))
}

func (e *configError) Unwrap() error { return e.Diagnostics }

// callError is a plugin's own error, or its breach of the protocol.
type callError struct {
	Instance, Plugin string
	// Message is what it said, secrets replaced.
	Message string
	Err     error
}

func (e *callError) Error() string {
	return fmt.Sprintf("plugin %s (%s): %s", e.Plugin, e.Instance, e.Message)
}

func (e *callError) Unwrap() error { return e.Err }
