package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/internal/heap"
	gatekeeper "github.com/stepfall/stepfall/adapters/internal/keys"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/telemetry"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/step"
)

type serveFlags struct {
	policy, addr   string
	sets, keys     []string
	anyModel, open bool
	watch          bool
	store, metrics string
	queue          string
	grace, drain   time.Duration
	page           servedPage

	origins, hosts []string
	limits         map[string]int
	tls            []string
}

func newServeCommand(s Streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --policy FILE",
		Short: "How does a program in any language use a policy? Serve it through the APIs of OpenAI and Anthropic",
		Long: `Serve a policy to programs in any language through chat completions, Responses or
Messages. Set their base URL to the one that is printed (Anthropic's clients take it
without /v1). With the model "stepfall" the policy chooses; a candidate's name pins the
request to that model.

An address that others can reach requires keys, or --open. With --store, replicas share
caps, circuit breakers, conversations and traces, and clients use keys from the store
("stepfall key create"). With --watch, a changed policy replaces the old one between
steps. More: docs/gateway.md and docs/operating.md.`,
		Example: `  stepfall serve --policy policy.hcl
  BLUE_KEY=... stepfall serve --policy policy.hcl --addr :8080 --key blue=BLUE_KEY`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "policy to serve")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8080", "address to listen on; port 0 takes a free one")
	flags.StringArrayVar(&f.sets, "set", nil, "change a value of the policy, such as budget.step_usd=0.05")
	flags.StringArrayVar(&f.keys, "key", nil, "tenant=VARIABLE: the environment variable that holds the tenant's key")
	flags.BoolVar(&f.anyModel, "any-model", false, "let the policy choose, whatever model a client asks for")
	flags.BoolVar(&f.watch, "watch", false, "reload the policy when its files change, and on SIGHUP")
	flags.StringVar(&f.store, "store", "", storeUsage)
	flags.StringVar(&f.queue, "queue", "", "let the workers of this queue (postgres:// URL) judge answers; they have the verifiers' plugins")
	flags.StringVar(&f.metrics, "metrics", "", "address of /metrics, such as 127.0.0.1:9464; none when absent")
	flags.BoolVar(&f.open, "open", false, "serve without keys, to everybody who can reach the address")
	flags.DurationVar(&f.drain, "drain", 5*time.Second, "how long requests are still accepted after a SIGTERM, while /readyz is 503")
	flags.StringArrayVar(&f.origins, "origin", nil, "allow browser requests from this origin (CORS), such as https://app.example; * is all")
	flags.StringArrayVar(&f.hosts, "host", nil, "additional host name that a gateway without keys accepts on loopback; * is all")
	flags.StringToIntVar(&f.limits, "limit", nil, "limits, such as requests=8,connections=200: concurrent requests of one client, connections in total; none when absent")
	flags.StringSliceVar(&f.tls, "tls", nil, "serve HTTPS: files with a certificate chain and its key in PEM, such as cert.pem,key.pem; reloaded when they change")
	f.page.add(flags)
	flags.DurationVar(&f.grace, "grace", 30*time.Second, "how long running steps may continue after an interrupt")
	return cmd
}

func (f *serveFlags) run(ctx context.Context, s Streams) (err error) {
	addr, keys, err := f.check()
	if err != nil {
		return err
	}
	if !f.watch && !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		hangup, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
		ctx = hangup
	}
	heap.Roomy()
	logger := s.logger("stepfall", hclog.Info)
	shared, err := sharedStore(ctx, f.store, logger)
	if err != nil {
		return err
	}
	if shared != nil {
		defer func() { err = errors.Join(err, shared.Close()) }()
	}
	signals, err := telemetry.Start(ctx, "stepfall-serve")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endTelemetry(ctx, signals)) }()
	var account savings.Account
	options := router.Options{
		Load: policies.LoadOptions{Sets: f.sets}, Logger: logger, Watch: f.watch, Traces: step.Tee(signals.Record, account.Record), Transport: signals.Transport(nil),
	}
	if shared != nil { // a nil *Shared would be a non-nil Store
		options.Store = shared
	}
	jobs, err := f.judges(ctx, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.close(ctx)) }()
	r, err := full.Open(ctx, f.policy, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.Start(ctx); err != nil {
		return err
	}
	ended, err := serveMetrics(f.metrics, s, signals, gaugesOf(shared, jobs.queueOf(), func() []*router.Router { return []*router.Router{r} }))
	if err != nil {
		return err
	}
	defer ended()
	o := f.gateway(ctx, r, signals, shared)
	o.Logger = logger
	before := func(g *gateway.Gateway) http.Handler { return signals.Handler(g) }
	switch {
	case len(keys) > 0:
		if o.Authenticate, err = gateway.Keys(keys); err != nil {
			return err
		}
	case shared != nil && !f.open:
		before = guardByKeys(shared, signals, &o)
	}
	if shared != nil {
		f.page.accounts, f.page.store = shared, cmp.Or(f.store, os.Getenv(storeVariable))
	}
	err = f.serve(ctx, s, r, addr, o, before)
	result := account.Result()
	if text := result.String(); text != "" {
		logger.Info("stopped: " + text)
	}
	return err
}

// check validates the flags and returns the listen address and the tenants by key.
func (f *serveFlags) check() (addr *net.TCPAddr, keys map[string]string, err error) {
	if f.policy == "" {
		return nil, nil, usage("--policy is required")
	}
	if keys, err = f.readKeys(); err != nil {
		return nil, nil, err
	}
	if addr, err = net.ResolveTCPAddr("tcp", f.addr); err != nil {
		return nil, nil, usage("--addr: %v", err)
	}
	stored := cmp.Or(f.store, os.Getenv(storeVariable)) != ""
	switch {
	case len(f.limits) > 0 && !isLimit(f.limits):
		err = usage("--limit: want numbers for requests and connections, such as requests=8,connections=200")
	case len(f.tls) != 0 && len(f.tls) != 2:
		err = usage("--tls: want the certificate and the key, such as cert.pem,key.pem")
	case stored && len(keys) > 0:
		err = usage("--key and --store are mutually exclusive: use 'stepfall key create'")
	case !stored && len(keys) == 0 && !f.open && !addr.IP.IsLoopback():
		err = usage("--addr %s can be reached by others: require keys (--key, --store), or give --open", f.addr)
	}
	return addr, keys, err
}

func isLimit(limits map[string]int) bool {
	for name, n := range limits {
		if n < 0 || name != "requests" && name != "connections" {
			return false
		}
	}
	return true
}

// gateway returns the options of the gateway, without keys.
func (f *serveFlags) gateway(ctx context.Context, r *router.Router, signals *telemetry.Telemetry, shared *store.Shared) gateway.Options {
	o := gateway.Options{Model: r, AnyModel: f.anyModel, Origins: f.origins, Hosts: f.hosts, MaxRequests: f.limits["requests"], Ready: r.Ready}
	o.Observe = func(x *gateway.Exchange) {
		if x.Refused != nil && x.Refused.Reason != "" {
			signals.CountRefusal(context.WithoutCancel(ctx), x.Refused.Reason)
		}
	}
	if f.open {
		o.Hosts = []string{"*"}
	}
	if shared != nil {
		o.Notes = shared
	}
	return o
}

// judges moves the policy's verifiers to the workers of a queue, if --queue names one.
func (f *serveFlags) judges(ctx context.Context, o *router.Options) (*submission, error) {
	if f.queue == "" {
		return nil, nil
	}
	if f.watch {
		return nil, usage("--watch and --queue are mutually exclusive: workers keep the policy that was loaded first")
	}
	load := o.Load
	load.WithoutSecrets = true
	p, err := policies.Load(f.policy, load)
	if err != nil {
		return nil, err
	}
	jobs, err := submit(ctx, f.queue, "serve-"+rand.Text(), p, f.sets, queue.RunOptions{Warn: func(text string) { o.Logger.Warn(text) }})
	if err != nil {
		return nil, err
	}
	o.Verifiers = jobs.run.Verifiers(jobs.policy)
	return jobs, nil
}

func guardByKeys(shared *store.Shared, t *telemetry.Telemetry, o *gateway.Options) func(*gateway.Gateway) http.Handler {
	guard := gatekeeper.NewGuard(shared.Store, shared.Leased)
	o.Authenticate = func(ctx context.Context, _ string) (gateway.Client, error) {
		k := store.KeyFrom(ctx)
		if k == nil {
			return gateway.Client{}, gateway.ErrUnknownKey
		}
		return gateway.Client{Tenant: k.Tenant, Key: k.ID}, nil
	}
	return func(g *gateway.Gateway) http.Handler {
		next := guard.Wrap(g, g.Refuse)
		return t.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/spend" { // includes steps that were just answered here
				shared.Traces.Settle(r.Context())
			}
			next.ServeHTTP(w, r)
		}))
	}
}

func (f *serveFlags) readKeys() (map[string]string, error) {
	keys := map[string]string{}
	for _, k := range f.keys {
		tenant, variable, ok := strings.Cut(k, "=")
		if !ok || tenant == "" || variable == "" {
			return nil, usage("--key: want tenant=VARIABLE")
		}
		key := os.Getenv(variable)
		if key == "" {
			return nil, usage("--key %s: the environment variable %s is not set", tenant, variable)
		}
		if other, twice := keys[key]; twice {
			return nil, usage("--key: the tenants %s and %s have the same key", other, tenant)
		}
		keys[key] = tenant
	}
	return keys, nil
}

func (f *serveFlags) serve(ctx context.Context, s Streams, r *router.Router, addr *net.TCPAddr, o gateway.Options, before func(*gateway.Gateway) http.Handler) error {
	o.Models = modelNames(r)
	o.Secrets = func() []string { return r.Policy().Secrets() }
	g, err := gateway.New(o)
	if err != nil {
		return err
	}
	serving := gateway.Serving{
		MaxConnections: f.limits["connections"], Drain: f.drain, Grace: f.grace, Handler: before(g),
		Stopping: func() { fmt.Fprintln(s.Err, "stopping: waiting for running steps") },
	}
	scheme := "http"
	if len(f.tls) > 0 {
		scheme = "https"
		if serving.TLS, err = g.Certificates(f.tls[0], f.tls[1]); err != nil {
			return err
		}
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	pages, stopPages, err := f.page.serve(ctx, s, r, f.sets, serving.TLS)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stopPages()
	fmt.Fprintf(s.Out, "serving %s at %s://%s/v1 (models: stepfall, %s)\n", f.policy, scheme, listener.Addr(), strings.Join(o.Models(), ", "))
	if pages != "" {
		fmt.Fprintf(s.Out, "operator's pages at %s\n", pages)
	}
	return g.Serve(ctx, listener, serving)
}

// modelNames returns a function that lists the models of the policy in use, without further samples of one.
func modelNames(r *router.Router) func() []string {
	return func() (names []string) {
		p := r.Policy()
		for _, list := range [][]policies.Model{p.Models, p.Embedders} {
			for i := range list {
				if !list[i].IsFurtherSample() {
					names = append(names, list[i].Name)
				}
			}
		}
		return names
	}
}
