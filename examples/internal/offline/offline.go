// Package offline lets the examples run without a key: a scripted model server on
// loopback takes the place of the provider when the environment offers none.
package offline

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stepfall/stepfall/adapters/scripted"
)

// Respond is what the scripted models say.
type Respond func(ctx context.Context, req *scripted.Request) scripted.Reply

// Start points OPENAI_BASE_URL at a scripted server and says so on standard error,
// unless the environment has a key or an address of a real one. The returned
// function stops the server and restores the environment.
func Start(respond Respond) (stop func(), err error) {
	if os.Getenv("OPENAI_API_KEY") != "" || os.Getenv("OPENAI_BASE_URL") != "" {
		return func() {}, nil
	}
	server, err := scripted.Start(scripted.Options{Respond: respond})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "No OPENAI_API_KEY: these are scripted models.")
	if err := errors.Join(os.Setenv("OPENAI_BASE_URL", server.URL()), os.Setenv("OPENAI_API_KEY", "none")); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return func() {
		Unset()
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

// Unset takes real models out of the environment, so that tests never call them.
func Unset() {
	os.Unsetenv("OPENAI_BASE_URL")
	os.Unsetenv("OPENAI_API_KEY")
}

// Must ends the process with the message of an example's error, if there is one.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
