package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/policies"
)

type viewFlags struct {
	addr   string
	export string
	steps  int
}

func newViewCommand(s Streams) *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "view [TRACES [POLICY]]",
		Short: "What was decided, spent and saved, and why? Open pages that show it",
		Long: `Open pages that show what was decided, spent and saved, and why.

TRACES is a file of traces (JSON lines, which are followed as they grow, or SQLite), or -
for standard input; the default is traces.jsonl. If the policy in use is given, the page
tries other settings on the newest steps and says which are expected to pay.

The pages are served on this machine only, and their address works once, in one browser.
With --export they are written as files instead, which open without a server.`,
		Example: `  stepfall view traces.jsonl policy.hcl
  stepfall view traces.db --export pages`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "local address to serve at; port 0 takes a free one")
	flags.StringVar(&f.export, "export", "", "write the pages to this folder instead of serving them")
	flags.IntVar(&f.steps, "steps", 1000, "with --export, how many of the newest steps get a page")
	return cmd
}

func (f *viewFlags) run(ctx context.Context, s Streams, args []string) (err error) {
	if f.steps < 1 {
		return usage("--steps %d: want at least 1", f.steps)
	}
	path, err := tracesPath(args)
	if err != nil {
		return err
	}
	src, err := openTraces(ctx, s, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	first, err := src.Traces.Steps(ctx, store.Filter{Limit: 1})
	if err != nil {
		return err
	}
	if err := src.checkTraces(len(first)); err != nil {
		return err
	}
	if len(args) > 1 {
		src.Policy = policyLoader(args[1])
		if _, err := src.Policy(); err != nil {
			return err
		}
	}
	if f.export != "" {
		first, err := view.Export(ctx, f.export, src.Options, f.steps)
		if err == nil {
			fmt.Fprintf(s.Out, "wrote %s\n", first)
		}
		return err
	}
	return f.serve(ctx, s, src.Options)
}

// tracesPath returns the argument, or the default file if it exists.
func tracesPath(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	const usual = "traces.jsonl"
	if _, err := os.Stat(usual); err != nil {
		return "", usage("no traces.jsonl in this folder: name a file of traces\nA policy with trace { file = \"traces.jsonl\" } writes one; 'stepfall demo' makes some to look at")
	}
	return usual, nil
}

// policyLoader returns a function that loads a policy for replays, which call no model.
func policyLoader(path string, given ...string) func(sets ...string) (*policies.Policy, error) {
	return func(sets ...string) (*policies.Policy, error) {
		return policies.Load(path, policies.LoadOptions{Sets: slices.Concat(given, sets), WithoutSecrets: true, Patches: true})
	}
}

func (f *viewFlags) serve(ctx context.Context, s Streams, o view.Options) error {
	addr, err := net.ResolveTCPAddr("tcp", f.addr)
	if err != nil {
		return usage("--addr: %v", err)
	}
	if !addr.IP.IsLoopback() {
		return usage("--addr %s can be reached by others: want a loopback address, or use stepfall serve --view, which requires a key", f.addr)
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	handler, address := localPage(o, listener)
	fmt.Fprintf(s.Out, "%s\nOpen it in a browser; it works once. Ctrl-C stops the server.\n", address)
	return servePage(ctx, handler, listener)
}

// localPage restricts the pages to this machine and returns the address that opens them.
func localPage(o view.Options, listener net.Listener) (http.Handler, string) {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	handler, path := view.Local(view.New(o), port)
	return handler, "http://" + listener.Addr().String() + path
}

func servePage(ctx context.Context, handler http.Handler, listener net.Listener) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close()
	}
	return nil
}
