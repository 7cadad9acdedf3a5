package plugin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// instances builds the one instance of a process and closes it on exit.
type instances struct {
	plugin *Plugin
	env    *environment

	mu    sync.Mutex
	close func() error
}

// NewServer returns a server for p that can be registered with gRPC. It is for tests without a
// process; programs use [Main]. closeAll closes the configured instance.
func NewServer(p Plugin, log *slog.Logger) (server *wire.Server, closeAll func() error, err error) {
	info, err := p.Info()
	if err != nil {
		return nil, nil, err
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	i := &instances{plugin: &p, env: &environment{log: log}}
	return &wire.Server{Info: info, Configure: i.configure, Context: i.context, Log: log}, i.closeInstance, nil
}

// context adds the logger, model caller and scratch directory to ctx.
func (i *instances) context(ctx context.Context) context.Context {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.env.contextWith(ctx)
}

func (i *instances) configure(ctx context.Context, req *wire.ConfigureRequest, models wire.ModelCaller) (instance *wire.Instance, ds schema.Diagnostics) {
	r, ok := i.plugin.role(req.Role)
	if !ok {
		return nil, schema.Errorf(nil, "%s has no role %s", i.plugin.Name, req.Role)
	}
	env := &environment{log: i.env.log.With("instance", req.Instance), scratch: req.ScratchDir}
	if i.plugin.CallsModels {
		env.models = models
	}
	defer func() {
		if v := recover(); v != nil {
			env.log.Error("panic", "in", "constructor", "panic", fmt.Sprint(v))
			instance, ds = nil, schema.Errorf(nil, "the plugin panicked while it was configured: %v", v)
		}
	}()
	b, ds := r.build(env.contextWith(ctx), req.Config)
	if b == nil {
		return nil, ds
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.env, i.close = env, b.close
	return &b.Instance, ds
}

func (i *instances) closeInstance() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	closing := i.close
	i.close = nil
	if closing == nil {
		return nil
	}
	return closing()
}
