package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Policy is a policy on its way to workers. Keys that it names are those of the
// worker's environment.
type Policy struct {
	// Tree is the parcel with its files; empty for one of the library.
	Tree string `json:"tree,omitempty"`
	// Path is that of the policy within the tree.
	Path string `json:"path"`
	// Sets are what --set changes.
	Sets []string `json:"sets,omitempty"`
	// WithoutProfile leaves the fit block out.
	WithoutProfile bool `json:"without_profile,omitempty"`
}

// SendPolicy sends a loaded policy: its files, its profile, and the files and folders
// beside it that its plugins are told of. sets are those that it was loaded with.
func (q *Queue) SendPolicy(ctx context.Context, p *policies.Policy, sets ...string) (Policy, error) {
	sent := Policy{Path: p.Path, Sets: sets, WithoutProfile: p.Fit == nil}
	if strings.HasPrefix(p.Path, "library:") {
		return sent, nil
	}
	main, err := filepath.Abs(p.Path)
	if err != nil {
		return sent, err
	}
	files := []string{main}
	for _, file := range p.Files {
		if strings.HasPrefix(file, "library:") {
			continue
		}
		full, err := filepath.Abs(file)
		if err != nil {
			return sent, err
		}
		files = append(files, full)
	}
	if info, err := os.Stat(main); err == nil && info.IsDir() {
		files = files[1:] // its files are in the list, and others in the folder are none of it
	}
	if p.Fit != nil && p.Fit.Profile != "" {
		files = append(files, p.Fit.Profile)
	}
	files = append(files, beside(p, filepath.Dir(main))...)
	root := filepath.Dir(main)
	for _, file := range files {
		for !below(root, file) {
			root = filepath.Dir(root)
		}
	}
	relative := make([]string, len(files))
	for i, file := range files {
		if relative[i], err = filepath.Rel(root, file); err != nil {
			return sent, err
		}
	}
	path, err := filepath.Rel(root, main)
	if err != nil {
		return sent, err
	}
	sent.Path = filepath.ToSlash(path)
	sent.Tree, err = q.SendTree(ctx, root, relative...)
	return sent, err
}

func below(root, file string) bool {
	relative, err := filepath.Rel(root, file)
	return err == nil && filepath.IsLocal(relative)
}

// beside returns what the policy's plugins are told of that is in its folder.
func beside(p *policies.Policy, dir string) []string {
	var named []string
	for i := range p.Plugins {
		named = append(named, p.Plugins[i].Read...)
	}
	for i := range p.Verifiers {
		named = append(named, texts(p.Verifiers[i].Config.Values())...)
	}
	for i := range p.Estimators {
		named = append(named, texts(p.Estimators[i].Config.Values())...)
	}
	var found []string
	for _, name := range named {
		// Absolute ones are the machine's; a folder itself is no file of the policy's.
		if name == "" || filepath.IsAbs(name) || !filepath.IsLocal(name) || filepath.Clean(name) == "." {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			found = append(found, filepath.Join(dir, name))
		}
	}
	return found
}

// texts returns the strings in a value.
func texts(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, texts(v[name])...)
		}
	}
	return out
}

// RouterCache opens the policies of jobs for a worker, each once, and closes those that were
// not used for ten minutes. It is safe for concurrent use.
type RouterCache struct {
	cache *Cache
	o     router.Options

	mu    sync.Mutex
	files map[string]*cachedRouter
}

type cachedRouter struct {
	once   sync.Once
	router atomic.Pointer[router.Router]
	err    error
	users  int
	left   time.Time
}

func (o *cachedRouter) close() error {
	if r := o.router.Load(); r != nil {
		return r.Close()
	}
	return nil
}

// idle is for how long a policy that nobody uses stays open.
const idle = 10 * time.Minute

// NewRouterCache returns a cache. The options go to the routers as they are. The caller closes it.
func NewRouterCache(cache *Cache, o router.Options) *RouterCache {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return &RouterCache{cache: cache, o: o, files: map[string]*cachedRouter{}}
}

// Use returns the router of a policy, whose plugins run, and what to call after use.
// purpose tells it from other uses of the same policy; change makes the policy what
// the purpose wants, and may be nil.
func (d *RouterCache) Use(ctx context.Context, p Policy, purpose string, change func(*policies.Policy)) (*router.Router, func(), error) {
	key := fmt.Sprintf("%q", []any{p, purpose})
	d.mu.Lock()
	d.retire(time.Now())
	o := d.files[key]
	if o == nil {
		o = &cachedRouter{}
		d.files[key] = o
	}
	o.users++
	d.mu.Unlock()
	o.once.Do(func() {
		r, err := d.open(ctx, p, change)
		o.router.Store(r)
		o.err = err
	})
	done := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		o.users--
		o.left = time.Now()
		if o.err != nil && d.files[key] == o {
			delete(d.files, key) // the next one tries again
		}
	}
	if o.err != nil {
		done()
		return nil, nil, o.err
	}
	return o.router.Load(), done, nil
}

func (d *RouterCache) open(ctx context.Context, sent Policy, change func(*policies.Policy)) (*router.Router, error) {
	path := sent.Path
	if sent.Tree != "" {
		dir, err := d.cache.Tree(ctx, sent.Tree)
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, filepath.FromSlash(sent.Path))
	}
	o := d.o.Load
	o.Sets, o.WithoutProfile, o.Patches = sent.Sets, sent.WithoutProfile, true
	p, err := policies.Load(path, o)
	if err != nil {
		return nil, err
	}
	// Traces are in the store; the folder is nobody's to write to.
	p.Trace.File, p.Trace.Database = "", ""
	for i := range p.Plugins {
		g := &p.Plugins[i]
		if g.Path == "" {
			continue
		}
		if _, err := os.Stat(g.Path); err != nil {
			// Where it is on the submitter's machine says nothing about this one.
			g.Path = ""
		}
	}
	if change != nil {
		change(p)
	}
	r, err := router.New(ctx, p, full.Complete(d.o))
	if err != nil {
		return nil, err
	}
	// A verifier at fault is found before a model is paid.
	if err := r.Start(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// retire closes what nobody uses. d is locked.
func (d *RouterCache) retire(now time.Time) {
	for key, o := range d.files {
		if o.users == 0 && now.Sub(o.left) > idle {
			delete(d.files, key)
			go func() {
				if err := o.close(); err != nil {
					d.o.Logger.Warn("closing a policy", "error", err)
				}
			}()
		}
	}
}

// Routers returns those that are open.
func (d *RouterCache) Routers() []*router.Router {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*router.Router
	for _, o := range d.files {
		if r := o.router.Load(); r != nil {
			list = append(list, r)
		}
	}
	return list
}

// Redact returns text without the secrets of the policies that are open, and without
// what looks like one.
func (d *RouterCache) Redact(text string) string {
	var secrets []string
	for _, r := range d.Routers() {
		secrets = append(secrets, r.Policy().Secrets()...)
	}
	return redact.New(secrets...).Text(text)
}

// Close closes all policies. Nobody uses them any more.
func (d *RouterCache) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var faults []error
	for _, o := range d.files {
		faults = append(faults, o.close())
	}
	clear(d.files)
	return errors.Join(faults...)
}
