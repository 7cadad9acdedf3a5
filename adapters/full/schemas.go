package full

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// Schemas returns a source that asks the plugins of the policy at a path for the schemas of their config blocks. It
// caches the schemas in the user's cache folder, so that a native plugin is only started once per version of its program.
func Schemas(ctx context.Context, policy string) policies.SchemaSource {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "stepfall", "schemas")
	}
	return func(p policies.Plugin, role string) (*schema.Schema, error) {
		if p.Path != "" && !filepath.IsAbs(p.Path) && !strings.HasPrefix(policy, "library:") {
			p.Path = filepath.Join(filepath.Dir(policy), p.Path)
		}
		program, err := findPlugin(p)
		if err != nil {
			return nil, err
		}
		sum, err := host.Checksum(program)
		if err != nil {
			return nil, fmt.Errorf("reading plugin %s: %w", program, err)
		}
		if err = host.CheckPin(program, sum, p.Checksum); err != nil {
			return nil, fmt.Errorf("%w: %w", policies.ErrOtherPlugin, err)
		}
		return cacheSchema(dir, program, sum, role, func() (*schema.Schema, error) { return askPlugin(ctx, p, program, role) })
	}
}

// cacheSchema returns the schema of the program with the checksum sum and of the role from dir, or else calls ask and
// writes its result to dir. Nothing is cached if dir is empty. Scripts and wrappers are not cached either, because the
// code that they load can change while they do not.
func cacheSchema(dir, program, sum, role string, ask func() (*schema.Schema, error)) (*schema.Schema, error) {
	if dir == "" || !host.IsNative(program) {
		return ask()
	}
	file := filepath.Join(dir, sum+"-"+role+".json")
	var known *schema.Schema
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &known) == nil && known != nil {
		return known, nil
	}
	s, err := ask()
	if err != nil {
		return nil, err
	}
	// If writing fails, the plugin is asked again next time. A partial file is not valid JSON and is ignored.
	if text, err := json.Marshal(s); err == nil && os.MkdirAll(dir, 0o700) == nil {
		_ = os.WriteFile(file, text, 0o600)
	}
	return s, nil
}

func findPlugin(p policies.Plugin) (string, error) {
	if p.Path != "" {
		if info, err := os.Stat(p.Path); err != nil || info.IsDir() {
			return "", fmt.Errorf("there is no program %s: %w", p.Path, policies.ErrNoPlugin)
		}
		return p.Path, host.CheckProgram(p.Path)
	}
	found := host.List(host.SearchPath())
	i := slices.IndexFunc(found, func(f host.PluginFile) bool { return f.Name == p.Name })
	if i < 0 {
		return "", policies.ErrNoPlugin
	}
	return found[i].Path, nil
}

func askPlugin(ctx context.Context, p policies.Plugin, path, role string) (_ *schema.Schema, err error) {
	h, err := host.New(host.Config{Plugins: map[string]host.PluginConfig{
		p.Name: {Path: path, SHA256: p.Checksum, PassEnv: p.Env, StartTimeout: p.StartTimeout},
	}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	s, err := h.Schema(ctx, p.Name, wire.Role(role))
	if errors.Is(err, host.ErrNoRole) {
		err = fmt.Errorf("%w: %w", policies.ErrOtherPlugin, err)
	}
	return s, err
}
