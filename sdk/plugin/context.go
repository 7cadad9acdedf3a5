package plugin

import (
	"context"
	"log/slog"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

type environmentKey struct{}

// environment is what the context of every plugin call carries.
type environment struct {
	log     *slog.Logger
	models  wire.ModelCaller
	scratch string
}

func (e *environment) contextWith(ctx context.Context) context.Context {
	return context.WithValue(ctx, environmentKey{}, e)
}

func environmentOf(ctx context.Context) *environment {
	if e, ok := ctx.Value(environmentKey{}).(*environment); ok {
		return e
	}
	return &environment{}
}

// Log returns the plugin's logger, whose entries appear in the host's log with their level and
// attributes. Outside a plugin it returns a logger that discards everything.
func Log(ctx context.Context) *slog.Logger {
	if log := environmentOf(ctx).log; log != nil {
		return log
	}
	return slog.New(slog.DiscardHandler)
}

// ErrModelLimit means that the policy allows no further model calls during the current host call.
var ErrModelLimit = wire.ErrModelLimit

// ModelCaller calls models.
type ModelCaller = wire.ModelCaller

// Models returns a [ModelCaller] that calls models through the host, which holds the API keys and
// accounts for the cost. Each call must use the context of a host call and must end before that host
// call returns. A plugin that uses it sets Plugin.CallsModels. The error is [wire.ErrNoModelCalls] if
// the host offers no models, and [ErrModelLimit] if the policy allows no more of them in this host call.
func Models(ctx context.Context) ModelCaller {
	if m := environmentOf(ctx).models; m != nil {
		return m
	}
	return wire.ModelCallerFunc(func(context.Context, string, *sdk.Query) (*sdk.Answer, error) {
		return nil, wire.ErrNoModelCalls
	})
}

// ScratchDir returns a directory that the plugin can write to, or "" if there is none. The host
// removes it after the plugin has exited.
func ScratchDir(ctx context.Context) string { return environmentOf(ctx).scratch }
