package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
)

type serveFlags struct {
	policy, addr   string
	sets, keys     []string
	anyModel, open bool
	watch          bool
	grace          time.Duration
}

func newServeCommand(s Streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --policy FILE",
		Short: "Serve a policy to programs that speak OpenAI's chat completions",
		Long: `Serve a policy to programs that speak OpenAI's chat completions, in any language:
set their base URL to the one that is printed. The model "stepfall" lets the policy
choose; a candidate's name pins a request to it.

A key belongs to a tenant and is read from an environment variable, so that it never
stands on a command line. An address that others can reach needs keys, or --open.

With --watch a policy that changes takes the place of the old one between steps; one
that is bad is refused, and the log says why.

On an interrupt, no further request is accepted and running steps may end.`,
		Example: `  stepfall serve --policy policy.hcl
  BLUE_KEY=... stepfall serve --policy policy.hcl --addr :8080 --key blue=BLUE_KEY`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "policy to serve")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8080", "address to listen at; port 0 takes a free one")
	flags.StringArrayVar(&f.sets, "set", nil, "change a value of the policy, as budget.step_usd=0.05")
	flags.StringArrayVar(&f.keys, "key", nil, "tenant=VARIABLE: the key in this environment variable is the tenant's")
	flags.BoolVar(&f.anyModel, "any-model", false, "let the policy choose whatever model a client asks for")
	flags.BoolVar(&f.watch, "watch", false, "follow the policy's files, and read them anew on SIGHUP")
	flags.BoolVar(&f.open, "open", false, "serve everybody who can reach the address, without keys")
	flags.DurationVar(&f.grace, "grace", 30*time.Second, "how long running steps may go on after an interrupt")
	return cmd
}

func (f *serveFlags) run(ctx context.Context, s Streams) error {
	if f.policy == "" {
		return usage("--policy is needed: what to serve")
	}
	keys, err := f.readKeys()
	if err != nil {
		return err
	}
	addr, err := net.ResolveTCPAddr("tcp", f.addr)
	if err != nil {
		return usage("--addr: %v", err)
	}
	if len(keys) == 0 && !f.open && !addr.IP.IsLoopback() {
		return usage("--addr %s can be reached by others: give them keys with --key, or say --open", f.addr)
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "stepfall", Output: s.Err, Level: hclog.Info})
	r, err := router.Open(ctx, f.policy, router.Options{Load: policies.LoadOptions{Sets: f.sets}, Logger: logger, Watch: f.watch})
	if err != nil {
		return err
	}
	if err := r.Start(ctx); err != nil {
		return errors.Join(err, r.Close())
	}
	return errors.Join(f.serve(ctx, s, r, addr, gateway.Options{Model: r, AnyModel: f.anyModel, Keys: keys, Logger: logger}), r.Close())
}

// readKeys returns the tenants by key.
func (f *serveFlags) readKeys() (map[string]string, error) {
	keys := map[string]string{}
	for _, k := range f.keys {
		tenant, variable, ok := strings.Cut(k, "=")
		if !ok || tenant == "" || variable == "" {
			return nil, usage("--key: want tenant=VARIABLE")
		}
		key := os.Getenv(variable)
		if key == "" {
			return nil, usage("--key %s: the environment has no %s", tenant, variable)
		}
		if other, twice := keys[key]; twice {
			return nil, usage("--key: the tenants %s and %s have one key", other, tenant)
		}
		keys[key] = tenant
	}
	return keys, nil
}

func (f *serveFlags) serve(ctx context.Context, s Streams, r *router.Router, addr *net.TCPAddr, o gateway.Options) error {
	o.Models = func() []string {
		var names []string
		for i := range r.Policy().Models {
			names = append(names, r.Policy().Models[i].Name)
		}
		return names
	}
	handler, err := gateway.New(o)
	if err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	// Steps outlive the interrupt by the grace, and no longer.
	steps, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return steps },
	}
	fmt.Fprintf(s.Out, "serving %s at http://%s/v1 (models: stepfall, %s)\n", f.policy, listener.Addr(), strings.Join(o.Models(), ", "))

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(s.Err, "stopping: running steps may end")
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.grace)
	defer cancel()
	if server.Shutdown(grace) == nil {
		return nil
	}
	end()
	// What they have spent is recorded before the policy's files are closed.
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelLast()
	return errors.Join(fmt.Errorf("steps were cut off after %v", f.grace), server.Shutdown(last))
}
