package cli

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/view"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/sdk/step"
)

// servedPage is the operator's page beside a gateway.
type servedPage struct {
	addr, key string
}

func (p *servedPage) add(flags *pflag.FlagSet) {
	flags.StringVar(&p.addr, "view", "", "serve the operator's pages (see stepfall view) at this address, as 127.0.0.1:8081")
	flags.StringVar(&p.key, "view-key", "", "environment variable with the operator's key to those pages; needed where others reach the address")
}

// serve begins to serve the pages, if they are asked for, and returns what ends them.
func (p *servedPage) serve(ctx context.Context, s Streams, r *router.Router) (address string, stop func(), err error) {
	if p.addr == "" {
		if p.key != "" {
			return "", nil, usage("--view-key goes with --view: the address of the pages")
		}
		return "", func() {}, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", p.addr)
	if err != nil {
		return "", nil, usage("--view: %v", err)
	}
	key := ""
	if p.key != "" {
		if key = os.Getenv(p.key); len(key) < 8 {
			return "", nil, usage("--view-key %s: the environment has no such key of at least 8 characters", p.key)
		}
	} else if !addr.IP.IsLoopback() {
		return "", nil, usage("--view %s can be reached by others: give the operator a key with --view-key", p.addr)
	}
	src, err := openSource(ctx, s, []string{tracesOf(r)})
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("--view shows what the policy records: %w", err), src.close())
	}
	o := src.Options
	o.Status = func(ctx context.Context) (*view.Status, error) { return statusOf(ctx, r, o.Traces) }
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return "", nil, errors.Join(err, src.close())
	}
	var handler http.Handler
	address = "http://" + listener.Addr().String()
	if key != "" {
		digest := sha256.Sum256([]byte(key))
		handler = view.Keyed(view.New(o), func(_ *http.Request, given string) bool {
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

// tracesOf names what the router's policy records steps in.
func tracesOf(r *router.Router) string {
	p := r.Policy()
	for _, path := range []string{p.Trace.Database, p.Trace.File} {
		switch {
		case path == "":
		case filepath.IsAbs(path) || strings.Contains(path, "://") || strings.HasPrefix(p.Path, "library:"):
			return path
		default:
			return filepath.Join(filepath.Dir(p.Path), path)
		}
	}
	return "traces.jsonl"
}

// statusOf says what of the router no trace tells.
func statusOf(ctx context.Context, r *router.Router, traces view.Reader) (*view.Status, error) {
	s := &view.Status{}
	for _, name := range r.OpenCircuits() {
		s.Circuits = append(s.Circuits, view.Circuit{Model: name})
	}
	for _, u := range r.Unsupported() {
		name := u.Parameter
		if u.Value != "" {
			name += " = " + u.Value
		}
		s.Unsupported = append(s.Unsupported, view.Unsupported{Model: u.Model, Parameter: name, Until: u.Until})
	}
	for _, p := range full.PluginStats(r) {
		s.Plugins = append(s.Plugins, view.PluginStatus{
			Name: p.Instance, Running: p.State == host.Ready || p.State == host.Stopped && p.LastError == "", Restarts: max(0, p.Starts-1), Error: p.LastError,
		})
	}
	memory, ok := r.Config().Step.Ledger.(*step.Memory)
	if !ok {
		return s, nil
	}
	b := &r.Policy().Budget
	caps := step.Caps{TenantUSD: b.TenantUSD, TenantPeriod: b.TenantPeriod, Tenants: map[string]float64{}}
	for _, t := range b.Tenants {
		caps.Tenants[t.Name] = t.USD
	}
	tenants, err := traces.Sums(ctx, []store.Dimension{store.ByTenant}, store.Filter{})
	if err != nil {
		return nil, err
	}
	for i := range tenants {
		name := tenants[i].Tenant
		limit, _ := caps.Tenant(name, time.Now())
		if limit == 0 {
			continue
		}
		_, spent := memory.SpentUSD("", name)
		if name == "" {
			name = "no tenant"
		}
		s.Caps = append(s.Caps, view.Cap{Name: name, SpentUSD: spent, LimitUSD: limit})
	}
	return s, nil
}
