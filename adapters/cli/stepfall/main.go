// Command stepfall runs cascades, fits and evaluates them, and looks after
// policies and plugins. See package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk/jail"
)

func main() {
	// As the helper of a jail, the program becomes the jailed command.
	jail.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the work in order, the second one at once.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
