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
	// errNotFound means that no folder of the search path has a program with the plugin's name.
	errNotFound = errors.New("plugin not found")
	// ErrChecksum means that the program does not have the checksum that the operator pinned.
	ErrChecksum = errors.New("plugin checksum mismatch")
	// ErrNoRole means that the plugin does not have the role.
	ErrNoRole = errors.New("wrong role")
	// errClosed means that the host is closed.
	errClosed = errors.New("plugin host closed")
)

// isPermanent reports whether starting the plugin again is useless.
func isPermanent(err error) bool {
	var config *configError
	return errors.As(err, &config) || errors.Is(err, ErrChecksum) || errors.Is(err, jail.ErrLacks)
}

// unavailableError is the error of an instance that cannot be called now. It matches
// [sdk.ErrPluginUnavailable].
type unavailableError struct {
	Instance, Plugin string
	// Reason is the cause in words: it crashed, did not start, did not answer.
	Reason string
	// Until is the time of the next start; zero means at the next call.
	Until time.Time
	// Err is the cause, if there is one.
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

// waitError is the error of a call that ended before it reached the plugin.
type waitError struct {
	// Reason is what the call waited for.
	Reason string
	Err    error
}

func (e *waitError) Error() string { return e.Reason + ": " + e.Err.Error() }

func (e *waitError) Unwrap() error { return e.Err }

// configError is the error of a plugin that rejected its config. The instance is not started again.
type configError struct {
	Instance, Plugin string
	Diagnostics      schema.Diagnostics
}

// Error returns the message, cut because it becomes the evidence of every verdict that is lost.
func (e *configError) Error() string {
	const enough = 4 << 10
	text := strings.ReplaceAll(e.Diagnostics.Error(), "\n", "\n  ")
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "... (the log has all)"
	}
	return fmt.Sprintf("plugin %s rejects the config of %s:\n  %s", e.Plugin, e.Instance, text)
}

func (e *configError) Unwrap() error { return e.Diagnostics }

// callError is an error that a plugin returned, or its violation of the protocol.
type callError struct {
	Instance, Plugin string
	// Message is the plugin's message, without secrets.
	Message string
	Err     error
}

func (e *callError) Error() string {
	return fmt.Sprintf("plugin %s (%s): %s", e.Plugin, e.Instance, e.Message)
}

func (e *callError) Unwrap() error { return e.Err }
