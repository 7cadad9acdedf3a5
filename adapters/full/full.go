// Package full puts policies to work with all that stepfall has: every provider, both
// stores, and plugins.
//
//	model, err := full.Open(ctx, "policy.hcl", full.Options{})
//
// A program that imports it links all of that. One that has its models in hand, or that
// needs one provider only, imports package router alone and hands in what it uses.
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

// Options are those of package router.
type Options = router.Options

// Open is [router.Open] with what o leaves open among providers, plugins and stores.
func Open(ctx context.Context, path string, o Options) (*router.Router, error) {
	return router.Open(ctx, path, Complete(o))
}

// Complete returns o with what it leaves open among providers, plugins and stores.
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
				return nil, err // a nil *Shared would not be a nil Store
			}
			return s, nil
		}
	}
	return o
}

// OpenStore opens a store that processes share: PostgreSQL where its address is a
// postgres:// URL, else the SQLite file of that name.
func OpenStore(ctx context.Context, address string, logger hclog.Logger) (*store.Shared, error) {
	switch {
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		return postgres.OpenShared(ctx, address, logger)
	case strings.Contains(address, "://"):
		return nil, fmt.Errorf("a store is a file, or a postgres:// URL, not %q", address)
	}
	return sqlite.OpenShared(ctx, address, logger)
}
