package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/redact"
)

// RouterCache opens the policies of a worker's jobs, each once, and closes those that were not used for ten minutes.
// It is safe for concurrent use.
type RouterCache struct {
	cache *Cache
	o     router.Options

	opening sync.Mutex // serialises opening; locked before mu
	mu      sync.Mutex
	open    map[string]*cachedRouter
}

type cachedRouter struct {
	*router.Router
	users int
	left  time.Time // when users became 0
}

// routerIdle is how long an unused policy stays open.
const routerIdle = 10 * time.Minute

// NewRouterCache returns a cache whose routers get the options o. The caller closes it.
func NewRouterCache(cache *Cache, o router.Options) *RouterCache {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	return &RouterCache{cache: cache, o: o, open: map[string]*cachedRouter{}}
}

// Use returns the router of a policy with started plugins, and a function that the caller must call after use.
// purpose distinguishes it from other uses of the same policy; change, which can be nil, adapts the policy to the
// purpose.
func (c *RouterCache) Use(ctx context.Context, p Policy, purpose string, change func(*policies.Policy)) (*router.Router, func(), error) {
	key := fmt.Sprintf("%q", []any{p, purpose})
	r := c.acquire(key)
	if r == nil {
		c.opening.Lock()
		defer c.opening.Unlock()
		if r = c.acquire(key); r == nil {
			fresh, err := c.start(ctx, p, change)
			if err != nil {
				return nil, nil, err
			}
			r = &cachedRouter{Router: fresh, users: 1}
			c.mu.Lock()
			c.open[key] = r
			c.mu.Unlock()
		}
	}
	return r.Router, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		r.users--
		r.left = time.Now()
	}, nil
}

// acquire returns the open router of a key, or nil, and closes idle ones.
func (c *RouterCache) acquire(key string) *cachedRouter {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, r := range c.open {
		if k != key && r.users == 0 && time.Since(r.left) > routerIdle {
			delete(c.open, k)
			go func() {
				if err := r.Close(); err != nil {
					c.o.Logger.Warn("closing a policy", "error", err)
				}
			}()
		}
	}
	r := c.open[key]
	if r != nil {
		r.users++
	}
	return r
}

func (c *RouterCache) start(ctx context.Context, sent Policy, change func(*policies.Policy)) (*router.Router, error) {
	path := sent.Path
	if sent.Tree != "" {
		dir, err := c.cache.Tree(ctx, sent.Tree)
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, filepath.FromSlash(sent.Path))
	}
	o := c.o.Load
	o.Sets, o.WithoutProfile, o.Patches = sent.Sets, sent.WithoutProfile, true
	p, err := policies.Load(path, o)
	if err != nil {
		return nil, err
	}
	// Traces go to the store; the policy's folder must stay unchanged.
	p.Trace.File, p.Trace.Database = "", ""
	for i := range p.Plugins {
		// A path on the submitter's machine may not exist here.
		if _, err := os.Stat(p.Plugins[i].Path); err != nil {
			p.Plugins[i].Path = ""
		}
	}
	if change != nil {
		change(p)
	}
	r, err := router.New(ctx, p, full.Complete(c.o))
	if err != nil {
		return nil, err
	}
	// Find a broken verifier before a model is paid.
	if err := r.Start(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Routers returns the open routers.
func (c *RouterCache) Routers() []*router.Router {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*router.Router
	for _, r := range c.open {
		list = append(list, r.Router)
	}
	return list
}

// Redact removes from text the secrets of the open policies and everything that looks like a secret.
func (c *RouterCache) Redact(text string) string {
	var secrets []string
	for _, r := range c.Routers() {
		secrets = append(secrets, r.Policy().Secrets()...)
	}
	return redact.New(secrets...).Text(text)
}

// Close closes all policies. None may be in use.
func (c *RouterCache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	for _, r := range c.open {
		faults = append(faults, r.Close())
	}
	clear(c.open)
	return errors.Join(faults...)
}
