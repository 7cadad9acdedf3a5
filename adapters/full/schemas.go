package full

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Schemas asks the plugins of the policy at a path for the schemas of their config blocks,
// and remembers the answers in the user's cache folder: a plugin is started to be asked
// once, until its program changes.
func Schemas(ctx context.Context, policy string) policies.SchemaSource {
	findPlugin := func(p policies.Plugin) (string, error) {
		if p.Path != "" && !filepath.IsAbs(p.Path) && !strings.HasPrefix(policy, "library:") {
			p.Path = filepath.Join(filepath.Dir(policy), p.Path)
		}
		return findPlugin(p)
	}
	source := policies.SchemaFunc(func(p policies.Plugin, role string) (*schema.Schema, error) {
		path, err := findPlugin(p)
		if err != nil {
			return nil, err
		}
		return askPlugin(ctx, p, path, role)
	})
	dir, err := os.UserCacheDir()
	if err != nil {
		return source // without a cache folder plugins are started each time
	}
	return policies.CacheSchemas(filepath.Join(dir, "stepfall", "schemas"), findPlugin, source)
}

// findPlugin returns the program of a plugin.
func findPlugin(p policies.Plugin) (string, error) {
	if p.Path != "" {
		if info, err := os.Stat(p.Path); err != nil || info.IsDir() {
			return "", fmt.Errorf("there is no program %s: %w", p.Path, policies.ErrNoPlugin)
		}
		return p.Path, nil
	}
	found := host.List(host.SearchPath())
	i := slices.IndexFunc(found, func(f host.Found) bool { return f.Name == p.Name })
	if i < 0 {
		return "", policies.ErrNoPlugin
	}
	return found[i].Path, nil
}

// askPlugin starts a plugin, asks for a schema and stops it.
func askPlugin(ctx context.Context, p policies.Plugin, path, role string) (_ *schema.Schema, err error) {
	h, err := host.New(host.Config{Plugins: map[string]host.PluginConfig{
		p.Name: {Path: path, SHA256: p.Checksum, PassEnv: p.Env, StartTimeout: p.StartTimeout},
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return h.Schema(ctx, p.Name, map[string]wire.Role{
		policies.RoleVerifier: wire.Verifier, policies.RoleCostEstimator: wire.CostEstimator, policies.RoleEstimator: wire.QualityEstimator,
	}[role])
}
