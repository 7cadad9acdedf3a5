package policies

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

func (l *loader) checkPlugins(p *Policy) {
	for i := range p.Plugins {
		l.checkProgram(&p.Plugins[i])
	}
	for _, e := range p.Estimators {
		if e.BuiltIn() {
			if e.Estimates != "quality" || !e.Config.Empty() {
				l.complain(l.blockOrigin([]string{"estimator", e.Name}), "the estimator \"agreement\" estimates quality and has no config", "It uses the models' quality blocks, or their prices where there are none.", "Remove estimates and config.")
			}
			continue
		}
		if e.DoubtUpTo > 0 {
			l.complain(l.originAt("estimator", e.Name, "doubt_up_to"), "doubt_up_to requires the estimator \"agreement\"", "", "Remove doubt_up_to.")
		}
		role := roleEstimator
		if e.Estimates == "cost" {
			role = roleCostEstimator
		}
		l.checkPluginConfig(p, e.Plugin, role, e.Config, "estimator", e.Name)
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		wasFinal := v.Judges() && v.Rates(nil) == nil
		if named := slices.IndexFunc(p.Models, func(m Model) bool { return v.mayAsk(m.Name) }); named >= 0 {
			v.namesModel = true
			if wasFinal {
				l.warn(l.blockOrigin([]string{"verifier", v.Name}), fmt.Sprintf("the config of verifier %q names the model %q", v.Name, p.Models[named].Name),
					"Its verdicts therefore count as evidence that can err, and not as final.", "If it asks that model, set learn = true. If it does not, set false_pass = 0: its verdicts are then final.")
			}
		}
		l.checkPluginConfig(p, v.Plugin, roleVerifier, v.Config, "verifier", v.Name)
	}
}

const agreementPlugin = "agreement"

// BuiltIn reports whether the estimator is the built-in one for the agreement of answers
// (estimate.OfPriors), and not a plugin.
func (e *Estimator) BuiltIn() bool { return e.Plugin == agreementPlugin }

// StatedMean returns the mean of the quality block, or 0 if the policy states none.
func (q Quality) StatedMean() float64 {
	if q == (Quality{Mean: 0.5, StdDev: 0.25}) { // the default
		return 0
	}
	return q.Mean
}

func (l *loader) absolute(path string) string {
	if path == "" {
		return ""
	}
	full, err := filepath.Abs(resolve(l.dir, path))
	if err != nil {
		return resolve(l.dir, path)
	}
	return full
}

func (l *loader) checkProgram(g *Plugin) {
	path := []string{"plugin", g.Name}
	for i, readable := range g.Read {
		g.Read[i] = l.absolute(readable)
	}
	if g.Path != "" {
		written := g.Path
		g.Path = l.absolute(written)
		if info, err := os.Stat(g.Path); err != nil || info.IsDir() {
			l.warn(l.originAt(append(path, "path")...), fmt.Sprintf("there is no program %s", written), "", "make build puts the plugins that come with stepfall into bin/plugins.")
		}
	}
	if g.Checksum = strings.ToLower(g.Checksum); g.Checksum != "" && (len(g.Checksum) != 64 || strings.Trim(g.Checksum, "0123456789abcdef") != "") {
		l.complain(l.originAt(append(path, "checksum")...), "not a SHA-256 in hex", "It has 64 digits from 0 to 9 and a to f.", "sha256sum, or stepfall plugin check, prints it.")
		g.Checksum = "" // reported once
	}
	for _, layer := range g.Require {
		if !slices.Contains(jail.Names(), layer) {
			l.complain(l.originAt(append(path, "require")...), fmt.Sprintf("unknown isolation layer %q", layer), "", suggest(layer, jail.Names()))
		}
	}
}

func (l *loader) reportNoSchema(p *Policy, plugin string, err error, at origin) {
	if errors.Is(err, ErrOtherPlugin) {
		l.complain(at, fmt.Sprintf("plugin %q cannot be used here", plugin), err.Error(), "stepfall plugin ls "+plugin+" shows its roles, stepfall plugin check its checksum.")
		return
	}
	if !errors.Is(err, ErrNoPlugin) {
		l.warn(at, fmt.Sprintf("the config of plugin %q is not checked", plugin), err.Error(), "")
		return
	}
	hint := cmp.Or(didYouMean(plugin, namesOf(p.Plugins, func(g Plugin) string { return g.Name })),
		"stepfall plugin ls shows those that are found; a plugin block with a path adds one.")
	detail := ""
	if err.Error() != ErrNoPlugin.Error() {
		detail = err.Error()
	}
	l.complain(at, fmt.Sprintf("there is no plugin %q", plugin), detail, hint)
}

func (l *loader) checkPluginConfig(p *Policy, plugin, role string, c Config, path ...string) {
	if plugin == "" || l.o.Schemas == nil {
		return
	}
	if c.places == nil {
		c.places = map[string]origin{"": l.blockOrigin(path)}
	}
	ref := Plugin{Name: plugin}
	if i := slices.IndexFunc(p.Plugins, func(g Plugin) bool { return g.Name == plugin }); i >= 0 {
		ref = p.Plugins[i]
	}
	schema, err := l.o.Schemas(ref, role)
	if err != nil {
		l.reportNoSchema(p, plugin, err, l.originAt(append(slices.Clone(path), "plugin")...))
		return
	}
	if schema != nil {
		l.checkConfig(schema, c, plugin)
	}
}
