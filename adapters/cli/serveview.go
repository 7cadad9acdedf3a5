package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/sdk/step"
)

// servedPage is the operator's pages beside a gateway.
type servedPage struct {
	view string // address and, after an equals sign, the variable that holds the key
	// store is the address of the shared store, or "".
	store string
	// accounts is shared with other processes; nil where this process keeps its own.
	accounts store.Accounts
}

func (p *servedPage) add(flags *pflag.FlagSet) {
	flags.StringVar(&p.view, "view", "", "serve the operator's pages (see stepfall view) at this address, such as 127.0.0.1:8081. An address that others can reach needs a key: :8081=VARIABLE takes it from that environment variable")
}

// serve starts to serve the pages if --view is given; with HTTPS if other machines can reach them and certificates is
// not nil. The caller calls stop.
func (p *servedPage) serve(ctx context.Context, s Streams, r *router.Router, sets []string, certificates *tls.Config) (address string, stop func(), err error) {
	if p.view == "" {
		return "", func() {}, nil
	}
	host, variable, keyed := strings.Cut(p.view, "=")
	addr, err := net.ResolveTCPAddr("tcp", host)
	if err != nil {
		return "", nil, usage("--view: %v", err)
	}
	key := ""
	if keyed {
		if key = os.Getenv(variable); len(key) < 8 {
			return "", nil, usage("--view %s: the variable holds no key of at least 8 characters", p.view)
		}
	} else if !addr.IP.IsLoopback() {
		return "", nil, usage("--view %s can be reached by others: require a key, such as %s=VARIABLE", p.view, p.view)
	}
	traces := p.tracesOf(r)
	if traces == "" {
		return "", nil, usage("--view needs recorded traces: add trace { file = \"traces.jsonl\" } to the policy, or use --store")
	}
	src, err := openTraces(ctx, s, traces)
	if err != nil {
		return "", nil, fmt.Errorf("opening the traces for --view: %w", err)
	}
	o := src.Options
	o.Policy = policyLoader(r.Policy().Path, sets...)
	o.Status = func(ctx context.Context) (*view.Status, error) { return statusOf(ctx, r, p.accounts, o.Traces) }
	var listener net.Listener
	if listener, err = net.ListenTCP("tcp", addr); err != nil {
		return "", nil, errors.Join(err, src.close())
	}
	var handler http.Handler
	address = "http://" + listener.Addr().String()
	if key != "" {
		if certificates != nil {
			listener, address = tls.NewListener(listener, certificates), "https://"+listener.Addr().String()
		}
		digest := sha256.Sum256([]byte(key))
		handler = view.RequireKey(view.New(o), func(_ *http.Request, given string) bool {
			other := sha256.Sum256([]byte(given))
			return subtle.ConstantTimeCompare(digest[:], other[:]) == 1
		})
	} else {
		handler, address = localPage(o, listener)
	}
	page, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := servePage(page, handler, listener); err != nil {
			fmt.Fprintf(s.Err, "stepfall: the operator's pages: %v\n", err)
		}
	}()
	return address, func() {
		end()
		<-ended
		_ = src.close()
	}, nil
}

// tracesOf returns where the router's policy records steps, or "".
func (p *servedPage) tracesOf(r *router.Router) string {
	policy := r.Policy()
	for _, path := range []string{policy.Trace.Database, policy.Trace.File} {
		switch {
		case strings.Contains(path, "://"):
			return path
		case path != "":
			return policy.Locate(path)
		}
	}
	return p.store
}

// statusOf returns the state of the router that is not in its traces.
func statusOf(ctx context.Context, r *router.Router, accounts store.Accounts, traces store.TraceReader) (s *view.Status, err error) {
	s = &view.Status{Circuits: r.OpenCircuits(), Unsupported: r.Unsupported()}
	for _, p := range full.PluginStats(r) {
		s.Plugins = append(s.Plugins, view.PluginStatus{
			Name: p.Instance, Running: p.State == host.Ready || p.State == host.Stopped && p.LastError == "", Restarts: max(0, p.Starts-1), Error: p.LastError,
		})
	}
	s.Caps, err = capsOf(ctx, r, accounts, traces)
	return s, err
}

// capsOf returns the policy's caps and their use by the shared accounts or, without any, by this process's.
func capsOf(ctx context.Context, r *router.Router, accounts store.Accounts, traces store.TraceReader) (list []view.Cap, err error) {
	b := &r.Policy().Budget
	list = slices.DeleteFunc([]view.Cap{{Name: "each step", LimitUSD: b.StepUSD, Each: true}, {Name: "each run", LimitUSD: b.RunUSD, Each: true}},
		func(c view.Cap) bool { return c.LimitUSD <= 0 })
	caps := step.Caps{TenantUSD: b.TenantUSD, TenantPeriod: b.TenantPeriod, Tenants: map[string]float64{}}
	names := map[string]bool{}
	for _, t := range b.Tenants {
		caps.Tenants[t.Name] = t.USD
		names[t.Name] = true
	}
	tenants, err := traces.Sums(ctx, []store.Dimension{store.ByTenant}, store.Filter{})
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		names[tenants[i].Tenant] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		one := view.Cap{Name: cmp.Or(name, "no tenant")}
		if one.LimitUSD, _ = caps.Tenant(name, time.Now()); one.LimitUSD == 0 {
			continue
		}
		if one.SpentUSD, err = tenantSpending(ctx, r, accounts, name); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// tenantSpending returns the spend that counts towards a tenant's cap.
func tenantSpending(ctx context.Context, r *router.Router, accounts store.Accounts, tenant string) (usd float64, err error) {
	if accounts == nil {
		if memory, ok := r.Config().Step.Ledger.(*step.Memory); ok {
			_, usd = memory.SpentUSD("", tenant)
		}
		return usd, nil
	}
	balances, err := accounts.Balances(ctx, store.TenantAccount(tenant), 0)
	for _, of := range balances {
		if of.Account == store.TenantAccount(tenant) {
			usd = float64(of.Spent+of.Reserved) / store.NanoUSD
		}
	}
	return usd, err
}
