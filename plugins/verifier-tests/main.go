// Command verifier-tests is a stepfall plugin that applies the edits in an answer to a copy-on-write view of
// a work tree and runs the tests there, in a jail.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin"
	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

func main() {
	jail.Main()
	plugin.Main(description())
}

func description() plugin.Plugin {
	return plugin.Plugin{
		Name: "verifier-tests", Version: "1.0.0",
		Doc:   "Applies the edits in an answer to a copy-on-write view of the query's work tree and runs its tests there, in a jail. See docs/first-party-plugins.md for the forms that edits may have.",
		Roles: []plugin.Role{plugin.Verifier(open)},
	}
}

func open(ctx context.Context, c verify.Config) (sdk.Verifier, error) {
	if wrong := c.Validate(); len(wrong) > 0 {
		return nil, wrong
	}
	c.CacheDir = stateDir(c.CacheDir)
	if c.Runtime == "container" {
		if c.Image == "" {
			return nil, schema.Errorf([]string{"image"}, "a container needs an image")
		}
		return verify.New(c, nil), nil
	}
	program, err := jail.Program(ctx, c.Command[0])
	if err != nil {
		return nil, schema.Errorf([]string{"command"}, "%v", err)
	}
	c.Command = append([]string{program}, c.Command[1:]...)
	j, err := jail.Open(ctx, jail.Options{Temp: plugin.ScratchDir(ctx)})
	if err != nil {
		return nil, err
	}
	layers, missing := j.Layers()
	plugin.Log(ctx).Info("isolation probed", "layers", layers, "missing", missing)
	if lacks := jail.Lacks([]string{"filesystem", "processes", "network"}, layers); len(lacks) > 0 {
		plugin.Log(ctx).Warn("answers run with less isolation than usual", "lacks", lacks, "reasons", fmt.Sprint(missing))
	}
	return verify.New(c, j), nil
}

// stateDir returns the folder for build caches, or "" if there is none: a service may have no home
// directory, or one that does not exist.
func stateDir(configured string) string {
	if configured != "" {
		return configured
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(cache, "stepfall", "verifier-tests")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	return dir
}
