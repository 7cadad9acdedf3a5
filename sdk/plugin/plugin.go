package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Plugin describes a plugin program.
type Plugin struct {
	// Name is the name of the program, for instance "verifier-tests".
	Name string
	// Version is a semantic version.
	Version string
	// Doc describes the plugin in Markdown.
	Doc string
	// Roles are the plugin's roles. A process serves one of them, with one config.
	Roles []Role
	// CallsModels must be true if the plugin uses [Models].
	CallsModels bool
	// MaxConcurrency is the largest number of concurrent calls; 0 means no limit.
	MaxConcurrency int
}

// Role is a role of a plugin, made by [Verifier], [QualityEstimator] or [CostEstimator].
type Role struct {
	kind   wire.Role
	schema func() (*schema.Schema, error)
	build  func(ctx context.Context, config map[string]any) (*builtInstance, schema.Diagnostics)
}

type builtInstance struct {
	wire.Instance
	close func() error
}

// Verifier returns the verifier role. newVerifier creates the verifier from its config, a struct with
// tags; ctx is valid until it returns. An error means that the config is invalid; one made with
// [schema.Errorf] names the argument.
func Verifier[C any](newVerifier func(ctx context.Context, config C) (sdk.Verifier, error)) Role {
	return role(wire.Verifier, newVerifier, func(i *wire.Instance, v sdk.Verifier) { i.Verifier = v })
}

// QualityEstimator returns the quality estimator role. newEstimator is as in [Verifier].
func QualityEstimator[C any](newEstimator func(ctx context.Context, config C) (sdk.QualityEstimator, error)) Role {
	return role(wire.QualityEstimator, newEstimator, func(i *wire.Instance, v sdk.QualityEstimator) { i.Quality = v })
}

// CostEstimator returns the cost estimator role. newEstimator is as in [Verifier].
func CostEstimator[C any](newEstimator func(ctx context.Context, config C) (sdk.CostEstimator, error)) Role {
	return role(wire.CostEstimator, newEstimator, func(i *wire.Instance, v sdk.CostEstimator) { i.Cost = v })
}

func role[C, V any](kind wire.Role, newInstance func(context.Context, C) (V, error), set func(*wire.Instance, V)) Role {
	return Role{
		kind:   kind,
		schema: schema.For[C],
		build: func(ctx context.Context, config map[string]any) (*builtInstance, schema.Diagnostics) {
			var c C
			ds := schema.Decode(config, &c)
			if ds.HasErrors() {
				return nil, ds
			}
			v, err := newInstance(ctx, c)
			if more, ok := errors.AsType[schema.Diagnostics](err); ok {
				ds, err = append(ds, more...), nil
				if ds.HasErrors() {
					return nil, ds
				}
			}
			if err != nil {
				return nil, append(ds, schema.Diagnostic{Summary: err.Error()})
			}
			if any(v) == nil {
				return nil, append(ds, schema.Diagnostic{Summary: "the plugin created no " + string(kind)})
			}
			b := &builtInstance{}
			set(&b.Instance, v)
			if c, ok := any(v).(io.Closer); ok {
				b.close = c.Close
			}
			return b, ds
		},
	}
}

// Info returns the description that the plugin sends to hosts. It fails if there is no name, version
// or role, if a role occurs twice, or if a config type has invalid tags.
func (p *Plugin) Info() (*wire.Info, error) {
	info := &wire.Info{
		Name: p.Name, Version: p.Version, Doc: p.Doc,
		MaxConcurrency: p.MaxConcurrency,
	}
	if p.Name == "" || p.Version == "" {
		return nil, errors.New("a plugin needs a name and a version")
	}
	if len(p.Roles) == 0 {
		return nil, fmt.Errorf("plugin %s has no roles", p.Name)
	}
	if p.CallsModels {
		info.Features = []string{wire.FeatureModelCalls}
	}
	for _, r := range p.Roles {
		if _, ok := info.Schema(r.kind); ok {
			return nil, fmt.Errorf("plugin %s has two roles %s", p.Name, r.kind)
		}
		s, err := r.schema()
		if err != nil {
			return nil, fmt.Errorf("plugin %s, %s: %w", p.Name, r.kind, err)
		}
		info.Roles = append(info.Roles, wire.RoleInfo{Role: r.kind, Config: s})
	}
	return info, nil
}

func (p *Plugin) role(kind wire.Role) (Role, bool) {
	for _, r := range p.Roles {
		if r.kind == kind {
			return r, true
		}
	}
	return Role{}, false
}
