// Command stepfall runs, fits and evaluates cascades, and manages policies and plugins. See package cli.
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
	// When started as a helper of a jail, the program becomes the jailed command.
	jail.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the command in an orderly way, the second one at once.
	context.AfterFunc(ctx, stop)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
