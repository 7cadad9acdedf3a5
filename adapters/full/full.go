// Package full opens policies with everything that stepfall includes: all providers, both stores, and
// plugins.
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//
// A program that imports it links all of these. To link less, use package router and pass it the
// models, providers or stores that you need.
package full

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/sqlite"
)

// Options are the options of package router.
type Options = router.Options

// Open is [router.Open] with all of stepfall's providers, plugins and stores, unless o sets its own.
func Open(ctx context.Context, path string, o Options) (*router.Router, error) {
	return router.Open(ctx, path, Complete(o))
}

// Complete returns o with all of stepfall's providers, plugins and stores, unless o sets its own.
func Complete(o Options) Options {
	if o.Providers == nil {
		o.Providers = provider.Clients()
	}
	if o.PluginHosts == nil {
		o.PluginHosts = pluginHosts{}
	}
	if o.OpenStore == nil {
		o.OpenStore = func(ctx context.Context, address string, logger hclog.Logger) (router.Store, error) {
			s, err := OpenStore(ctx, address, logger)
			if err != nil {
				return nil, err // a nil *Shared in a Store would not be nil
			}
			return s, nil
		}
	}
	return o
}

// OpenStore opens a store that processes can share: PostgreSQL if the address is a postgres:// URL,
// otherwise the SQLite file at that path.
func OpenStore(ctx context.Context, address string, logger hclog.Logger) (*store.Shared, error) {
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		return postgres.OpenShared(ctx, address, logger)
	case strings.Contains(address, "://"):
		return nil, fmt.Errorf("a store is a file, or a postgres:// URL, not %q", address)
	}
	return sqlite.OpenShared(ctx, address, logger)
}
