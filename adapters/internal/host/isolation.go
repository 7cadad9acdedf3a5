package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/process"
)

// The isolation levels. At each, a plugin gets a clean environment and its own process group.
const (
	// isolationNone adds nothing: processes that leave the process group outlive the plugin.
	isolationNone = "none"
	// isolationProcess kills all child processes of a plugin together with the plugin or the host. The
	// host's program must call [jail.Main]; otherwise there is no isolation, and the log says so.
	isolationProcess = "process"
	// isolationSandbox also removes the network, and all files except those of the system, of the plugin's
	// program, of Config.Dir and of PluginConfig.Read.
	isolationSandbox = "sandbox"
)

// sandboxRequires is the default of Require for a sandbox.
var sandboxRequires = []string{"filesystem", jail.LayerNetwork, "processes"}

func (c PluginConfig) requires() []string {
	required := slices.Clone(c.Require)
	if len(required) == 0 && c.Isolation == isolationSandbox {
		required = slices.Clone(sandboxRequires)
	}
	if c.Memory > 0 && !slices.Contains(required, "memory") {
		required = append(required, "memory")
	}
	return required
}

func (c PluginConfig) checkIsolation() error {
	switch c.Isolation {
	case "", isolationNone, isolationProcess, isolationSandbox:
	default:
		return fmt.Errorf("isolation is %q: it must be none, process or sandbox", c.Isolation)
	}
	if c.Memory < 0 {
		return fmt.Errorf("memory is %d bytes: it must not be negative", c.Memory)
	}
	for _, name := range c.Require {
		if names := jail.Names(); !slices.Contains(names, name) {
			return fmt.Errorf("require has unknown layer %q; known are %s", name, strings.Join(names, ", "))
		}
	}
	if required := c.requires(); c.Isolation == isolationNone && len(required) > 0 {
		return fmt.Errorf("%w: isolation is none, and %s is required", jail.ErrLacks, strings.Join(required, ", "))
	}
	return nil
}

// Isolation returns the isolation layers that this machine supports (see package jail), and the others with
// the reason. The error means that there are none.
func (h *Host) Isolation() (layers []string, missing map[string]string, err error) {
	j, err := h.jail()
	if err != nil {
		return nil, nil, err
	}
	layers, missing = j.Layers()
	return layers, missing, nil
}

func (h *Host) openJail() (*jail.Jail, error) {
	j, err := jail.Open(h.ctx, jail.Options{})
	if err != nil && h.ctx.Err() == nil {
		h.log.Warn("children of plugins that leave their process group outlive them", "reason", err)
	}
	return j, err
}

// confine adds the isolation of the settings to the spec. The plugin can write to own.
func (h *Host) confine(spec *process.Spec, settings PluginConfig, own string) error {
	if settings.Isolation == isolationNone {
		h.log.Warn("plugin runs without isolation: it can read this program's environment, including keys, through /proc", "program", spec.Path)
		return nil
	}
	required := settings.requires()
	j, err := h.jail()
	if err != nil {
		if len(required) > 0 {
			return fmt.Errorf("%w: %s required: %w", jail.ErrLacks, strings.Join(required, ", "), err)
		}
		return nil
	}
	spec.Jail = j
	spec.Confinement = &jail.Confinement{Limits: jail.Limits{Memory: settings.Memory}, Require: required}
	if settings.Isolation == isolationSandbox {
		spec.Confinement.Sandbox = true
		spec.Confinement.Writable = []string{own}
		spec.Confinement.ReadOnly = slices.Concat(jail.ToolPaths(spec.Path), []string{filepath.Dir(spec.Path)}, settings.Read)
		if spec.Dir != "" {
			spec.Confinement.ReadOnly = append(spec.Confinement.ReadOnly, spec.Dir)
		}
	}
	return nil
}

// overrideClaims sets the verifier's name to the policy's, and removes claimed isolation layers that this
// machine does not have. If the host's program does not call [jail.Main], the machine cannot be probed and
// the claims stay: the plugin may call it.
func (i *instance) overrideClaims(verdict *sdk.Verdict) {
	verdict.Verifier = i.name
	if len(verdict.Isolation) == 0 {
		return
	}
	layers := jail.Names()
	if j, err := i.host.jail(); err == nil {
		layers, _ = j.Layers()
	}
	verdict.Isolation = slices.DeleteFunc(verdict.Isolation, func(claim string) bool {
		// A plugin may have a cgroup even if the host has none.
		return claim != jail.LayerCgroup && !slices.Contains(layers, claim)
	})
}
