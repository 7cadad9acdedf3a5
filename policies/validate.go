package policies

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// validate checks what no argument shows by itself: references, prices, budgets,
// blocks without use.
func (l *loader) validate(p *Policy) {
	names := make([]string, len(p.Models))
	for i := range p.Models {
		names[i] = p.Models[i].Name
	}
	if len(names) == 0 && !l.faulty["model"] {
		l.complain(origin{rng: l.top}, "there is no model", "", `Add model "NAME" { provider = "openai" ... }, or include a policy that has some.`)
	}
	l.references(p, names)
	for i := range p.Models {
		l.model(p, &p.Models[i])
	}
	l.strategies(p, names)
	l.budget(p)
	l.fit(p)
	l.mode(p)
	l.plugins(p)
	l.unused(p)
}

// references checks the names of models everywhere.
func (l *loader) references(p *Policy, names []string) {
	check := func(given []string, path ...string) {
		for _, g := range given {
			if g != "" && !slices.Contains(names, g) && len(names) > 0 {
				l.complain(l.place(path...), fmt.Sprintf("there is no model %q", g), "", choose(g, names))
			}
		}
	}
	check([]string{p.Baseline}, "baseline")
	for _, e := range p.Estimators {
		check(e.Models, "estimator", e.Name, "models")
	}
	for _, v := range p.Verifiers {
		check(v.Models, "verifier", v.Name, "models")
	}
	check(p.Strategy.Order, "strategy", p.Strategy.Kind, "order")
	for _, m := range p.Matches {
		check(m.Models, "match", m.Name, "models")
		if m.Strategy != nil {
			check(m.Strategy.Order, "match", m.Name, "strategy", m.Strategy.Kind, "order")
		}
	}
}

// model completes a model from the catalogue and checks it.
func (l *loader) model(p *Policy, m *Model) {
	if m.Served == "" {
		m.Served = m.Name
	}
	path := []string{"model", m.Name}
	key := m.Provider + "/" + m.Served
	var facts *Catalog
	for i := range p.Catalog {
		if p.Catalog[i].Name == key {
			facts = &p.Catalog[i]
		}
	}
	priced := l.header(append(slices.Clone(path), "price")).first > 0
	if facts != nil {
		l.complete(m, facts, priced, path)
	} else if !priced && m.Provider != "" {
		near := make([]string, 0, len(p.Catalog))
		for _, c := range p.Catalog {
			near = append(near, c.Name)
		}
		hint := "Add price { ... } to the model"
		if m.Provider == "ollama" {
			hint += ", with free = true when running it costs nothing"
		}
		if question := didYouMean(key, near); question != "" {
			hint = strings.Replace(question, "?", " (its price is known)?", 1) + " Otherwise a" + strings.TrimPrefix(hint, "A")
		}
		l.complain(l.blockOrigin(path), fmt.Sprintf("model %q has no price", m.Name), fmt.Sprintf("The catalogue does not know %s.", key), hint+".")
		return
	}
	at := append(slices.Clone(path), "price")
	zero := m.Price == Price{Free: m.Price.Free}
	switch {
	case m.Price.Free && !zero:
		l.complain(l.place(append(at, "free")...), fmt.Sprintf("model %q is free and has prices", m.Name), "", "Remove one of the two.")
	case !m.Price.Free && priced && !l.faulty[strings.Join(at, delim)]:
		l.prices(m, at)
	}
	if m.ContextTokens > 0 && m.MaxOutputTokens > m.ContextTokens {
		l.complain(l.place(append(slices.Clone(path), "max_output_tokens")...), fmt.Sprintf("model %q answers longer than its context", m.Name),
			fmt.Sprintf("max_output_tokens is %d, context_tokens %d: prompt and answer together.", m.MaxOutputTokens, m.ContextTokens), "")
	}
	if m.Provider == "go" && (m.BaseURL != "" || m.APIKey.Name() != "") {
		l.warn(l.blockOrigin(path), fmt.Sprintf("base_url and api_key of model %q are not used", m.Name), `A model with the provider "go" is handed over by the application.`, "")
	}
	for _, d := range append([]Deployment{{BaseURL: m.BaseURL}}, m.Deployments...) {
		if d.BaseURL != "" && !strings.HasPrefix(d.BaseURL, "http://") && !strings.HasPrefix(d.BaseURL, "https://") {
			where := append(slices.Clone(path), "base_url")
			if d.Name != "" {
				where = append(slices.Clone(path), "deployment", d.Name, "base_url")
			}
			l.complain(l.place(where...), fmt.Sprintf("%q is no address", d.BaseURL), "", "An address begins with http:// or https://.")
		}
	}
}

// prices reports prices of 0 where nobody said that the model is free.
func (l *loader) prices(m *Model, path []string) {
	for _, one := range []struct {
		name string
		usd  float64
	}{{"input_usd_per_million", m.Price.Input}, {"output_usd_per_million", m.Price.Output}} {
		at := append(slices.Clone(path), one.name)
		_, given := l.places[strings.Join(at, delim)]
		switch {
		case one.usd > 0:
		case given:
			l.complain(l.place(at...), fmt.Sprintf("%s of model %q is 0", one.name, m.Name), "", "If the model really costs nothing, say free = true instead of prices.")
		default:
			l.complain(l.place(at...), fmt.Sprintf("model %q has no %s", m.Name, one.name), "", "If the model really costs nothing, say free = true instead of prices.")
		}
	}
}

// complete fills in what the policy leaves to the catalogue.
func (l *loader) complete(m *Model, facts *Catalog, priced bool, path []string) {
	origin := fmt.Sprintf("catalogue %s of %s", facts.Name, facts.AsOf)
	add := func(value string, keys ...string) {
		l.settings = append(l.settings, Setting{Path: append(slices.Clone(path), keys...), Value: value, Origin: origin})
	}
	has := func(argument string) bool {
		_, ok := l.places[strings.Join(append(slices.Clone(path), argument), delim)]
		return ok
	}
	if !has("context_tokens") && facts.ContextTokens > 0 {
		m.ContextTokens = facts.ContextTokens
		add(fmt.Sprint(m.ContextTokens), "context_tokens")
	}
	if !has("max_output_tokens") && facts.MaxOutputTokens > 0 {
		m.MaxOutputTokens = facts.MaxOutputTokens
		if m.ContextTokens > 0 {
			m.MaxOutputTokens = min(m.MaxOutputTokens, m.ContextTokens)
		}
		add(fmt.Sprint(m.MaxOutputTokens), "max_output_tokens")
	}
	if !has("capabilities") && len(facts.Capabilities) > 0 {
		m.Capabilities = facts.Capabilities
		add(renderAny(anyList(m.Capabilities)), "capabilities")
	}
	if !priced {
		m.Price = facts.Price
		for _, one := range []struct {
			name string
			usd  float64
		}{
			{"input_usd_per_million", m.Price.Input},
			{"cached_input_usd_per_million", m.Price.CachedInput},
			{"cache_write_usd_per_million", m.Price.CacheWrite},
			{"output_usd_per_million", m.Price.Output},
			{"reasoning_usd_per_million", m.Price.Reasoning},
		} {
			if one.usd > 0 {
				add(number(one.usd), "price", one.name)
			}
		}
	}
}

func anyList(texts []string) []any {
	list := make([]any, len(texts))
	for i, t := range texts {
		list[i] = t
	}
	return list
}

// strategies checks each strategy against the models that it chooses among.
func (l *loader) strategies(p *Policy, names []string) {
	l.strategy(p, &p.Strategy, names, []string{"strategy", p.Strategy.Kind})
	everything := ""
	for i := range p.Matches {
		m := &p.Matches[i]
		path := []string{"match", m.Name}
		if m.Strategy == nil {
			l.complain(l.blockOrigin(path), fmt.Sprintf("match %q has no strategy", m.Name), "", `Add strategy "..." { ... } to it.`)
		} else {
			candidates := m.Models
			if candidates == nil {
				candidates = names
			}
			l.strategy(p, m.Strategy, candidates, append(path, "strategy", m.Strategy.Kind))
		}
		if everything != "" {
			l.warn(l.blockOrigin(path), fmt.Sprintf("match %q is never reached", m.Name), fmt.Sprintf("match %q has no conditions and comes before it.", everything), "")
		} else if m.When.Empty() {
			everything = m.Name
		}
	}
}

func (l *loader) strategy(p *Policy, s *Strategy, candidates []string, path []string) {
	if s.Kind == "" {
		return
	}
	at := func(argument string) origin { return l.place(append(slices.Clone(path), argument)...) }
	fitted := p.Fit != nil
	for _, name := range []string{"lambda", "threshold", "gamma", "scale"} {
		_, given := l.places[strings.Join(append(slices.Clone(path), name), delim)]
		if given && fitted && !l.o.WithoutProfile && len(path) == 2 {
			l.complain(at(name), fmt.Sprintf("%s comes from the profile", name), fmt.Sprintf("The fit block names %s, and a value must have one source.", p.Fit.Profile),
				fmt.Sprintf("Remove %s, or the fit block.", name))
		}
	}
	if !fitted || len(path) > 2 {
		_, lambda := l.places[strings.Join(append(slices.Clone(path), "lambda"), delim)]
		_, threshold := l.places[strings.Join(append(slices.Clone(path), "threshold"), delim)]
		switch {
		case s.Kind == "threshold" && !threshold:
			l.complain(l.blockOrigin(path), "threshold is missing", "", "Add threshold = 0.8 (good enough from there on), or fit { profile = ... }.")
		case s.Kind != "threshold" && !lambda:
			l.complain(l.blockOrigin(path), "lambda is missing", "It is the price of a dollar in units of quality; without it every model that might help is run.",
				"Add lambda = 0.5 (0 means quality at any cost), or fit { profile = ... }.")
		}
	}
	for _, name := range s.Order {
		if slices.Contains(candidates, name) || !slices.Contains(modelNames(p), name) {
			continue
		}
		l.complain(at("order"), fmt.Sprintf("model %q is no candidate here", name), "", "The candidates of this match are "+strings.Join(candidates, ", ")+".")
	}
	models := len(candidates)
	if s.Order != nil {
		models = len(s.Order)
	}
	if n := max(len(s.Lambda), len(s.Threshold)); n > models && models > 0 {
		argument := "lambda"
		if len(s.Threshold) > 0 {
			argument = "threshold"
		}
		l.warn(at(argument), fmt.Sprintf("%s has %d values for %s", argument, n, plural(models, "model")), "The last ones are never used.", "")
	}
	if s.MaxDepth > models && models > 0 {
		l.warn(at("max_depth"), fmt.Sprintf("max_depth is %d, and there are %s", s.MaxDepth, plural(models, "model")), "", "")
	}
}

func modelNames(p *Policy) []string {
	names := make([]string, len(p.Models))
	for i := range p.Models {
		names[i] = p.Models[i].Name
	}
	return names
}

// budget checks that the caps leave room for something.
func (l *loader) budget(p *Policy) {
	b := p.Budget
	cheapest, cheapestWorst := "", ""
	var expected, worst float64
	for i := range p.Models {
		m := &p.Models[i]
		price := m.Price.SDK()
		if m.Price.Free {
			expected, worst, cheapest, cheapestWorst = 0, 0, m.Name, m.Name
			break
		}
		if price.Output == 0 {
			return // already complained about
		}
		if e := float64(m.ExpectedOutputTokens) * price.Output / 1e6; cheapest == "" || e < expected {
			cheapest, expected = m.Name, e
		}
		if w := float64(m.MaxOutputTokens) * max(price.Output, price.Reasoning) / 1e6; cheapestWorst == "" || w < worst {
			cheapestWorst, worst = m.Name, w
		}
	}
	if cheapest == "" {
		return
	}
	if b.ExpectedUSD > 0 && b.ExpectedUSD < expected {
		l.complain(l.place("budget", "expected_usd_per_query"), "the budget is below the cheapest model",
			fmt.Sprintf("A usual answer of %q costs %s US dollars before its prompt is counted; the budget is %s.", cheapest, number(round(expected)), number(b.ExpectedUSD)),
			"Raise the budget, add a cheaper model, or set expected_output_tokens of the model to what your answers are.")
	}
	caps := []struct {
		name string
		usd  float64
	}{{"step_usd", b.StepUSD}, {"run_usd", b.RunUSD}, {"tenant_usd", b.TenantUSD}}
	for i, c := range caps {
		if c.usd == 0 {
			continue
		}
		if c.usd < worst {
			l.complain(l.place("budget", c.name), fmt.Sprintf("%s leaves no room for a single call", c.name),
				fmt.Sprintf("The worst case of a call is reserved before it: the longest answer of %q, the cheapest there, costs %s US dollars.", cheapestWorst, number(round(worst))),
				"Raise the cap, or lower max_output_tokens of a model.")
		}
		for _, inner := range caps[:i] {
			if inner.usd > c.usd {
				l.warn(l.place("budget", inner.name), fmt.Sprintf("%s can never be reached", inner.name), fmt.Sprintf("%s is lower: %s.", c.name, number(c.usd)), "")
			}
		}
	}
	if b.StepUSD+b.RunUSD+b.TenantUSD > 0 || len(b.Tenants) > 0 {
		for _, m := range p.Models {
			if m.MaxOutputTokens == 0 && !m.Price.Free && m.Provider != "" {
				l.complain(l.blockOrigin([]string{"model", m.Name}), fmt.Sprintf("model %q has no longest answer", m.Name),
					"A cap reserves the worst case of each call, which is unknown without it.", "Add max_output_tokens.")
			}
		}
	}
	if b.TenantPeriod > 0 && b.TenantUSD == 0 && len(b.Tenants) == 0 {
		l.warn(l.place("budget", "tenant_period"), "tenant_period without tenant_usd", "", "")
	}
}

// round returns usd to three significant digits.
func round(usd float64) float64 {
	var out float64
	if _, err := fmt.Sscan(fmt.Sprintf("%.3g", usd), &out); err != nil {
		return usd
	}
	return out
}

func (l *loader) fit(p *Policy) {
	if p.Fit == nil || p.Fit.Profile == "" || l.o.WithoutProfile {
		return
	}
	at := l.place("fit", "profile")
	written := p.Fit.Profile
	p.Fit.Profile = l.absolute(written)
	if _, err := os.Stat(p.Fit.Profile); err != nil {
		l.complain(at, fmt.Sprintf("there is no profile %s", written), "", "Make it: stepfall fit --policy ... --outcomes ... --budget ... --out "+written+".")
		return
	}
	if l.o.CheckProfile == nil || len(l.diags) > 0 && l.diags.HasErrors() {
		return
	}
	if err := l.o.CheckProfile(p.Fit.Profile, p); err != nil {
		l.complain(at, "the profile does not match the policy", err.Error(), "Fit again, or use the models and prices that it was made for.")
	}
}

func (l *loader) mode(p *Policy) {
	if p.Mode != "enforce" && p.Mode != "" && p.Baseline == "" {
		l.complain(l.place("mode"), fmt.Sprintf("mode %s needs a baseline", p.Mode), "", `Add baseline = "...": the model that is called while stepfall only looks on.`)
	}
	if p.Mode == "shadow" && p.Shadow == nil {
		l.complain(l.place("mode"), "mode shadow needs a shadow block", "It spends money beside the baseline.", "Add shadow { max_usd = 5 }.")
	}
	if p.Stream.Mode == "passthrough" && len(p.Models) > 1 && len(p.Matches) == 0 && p.Strategy.Kind != "route" && p.Strategy.MaxDepth != 1 {
		l.complain(l.place("stream", "mode"), "passthrough needs a single candidate", "A strategy that may run a second model cannot take back what was streamed.",
			`Use mode = "commit", the strategy route, or max_depth = 1.`)
	}
	for _, path := range []*string{&p.Budget.Ledger, &p.Trace.File, &p.Trace.Database} {
		*path = l.absolute(*path)
	}
	if p.Trajectory.ShowFailures && p.Trajectory.Unit == "step" {
		l.warn(l.place("trajectory", "show_failures"), "show_failures has no effect", `With unit = "step" models share one attempt, so that there is no failed one to show.`, "")
	}
	if p.Retry.MaxDelay < p.Retry.BaseDelay {
		l.warn(l.place("retry", "max_delay"), "max_delay is shorter than base_delay", "", "")
	}
}

// plugins checks the plugins and the config blocks for them.
func (l *loader) plugins(p *Policy) {
	for i := range p.Plugins {
		g := &p.Plugins[i]
		path := []string{"plugin", g.Name}
		if g.Path != "" {
			written := g.Path
			g.Path = l.absolute(written)
			if info, err := os.Stat(g.Path); err != nil || info.IsDir() {
				l.warn(l.place(append(path, "path")...), fmt.Sprintf("there is no program %s", written), "", "make build puts the plugins that come with stepfall into bin/plugins.")
			}
		}
		if g.Checksum != "" && !isHash(g.Checksum) {
			l.complain(l.place(append(path, "checksum")...), "this is no SHA-256 in hex", "It has 64 digits from 0 to 9 and a to f.", "sha256sum, or stepfall plugin lock, prints it.")
		}
	}
	for _, e := range p.Estimators {
		l.pluginConfig(p, e.Plugin, e.Config, "estimator", e.Name)
	}
	for _, v := range p.Verifiers {
		l.pluginConfig(p, v.Plugin, v.Config, "verifier", v.Name)
	}
}

// absolute returns a path that the policy has, with its folder.
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

func isHash(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

func (l *loader) pluginConfig(p *Policy, plugin string, c Config, path ...string) {
	if plugin == "" {
		return
	}
	if c.places == nil {
		c.places = map[string]origin{"": l.blockOrigin(path)}
	}
	ref := Plugin{Name: plugin}
	if i := slices.IndexFunc(p.Plugins, func(g Plugin) bool { return g.Name == plugin }); i >= 0 {
		ref = p.Plugins[i]
	}
	if l.o.Schemas == nil {
		return
	}
	schema, err := l.o.Schemas.ConfigSchema(ref, path[0])
	if err != nil {
		at := l.place(append(slices.Clone(path), "plugin")...)
		if errors.Is(err, ErrNoPlugin) {
			names := make([]string, 0, len(p.Plugins))
			for _, g := range p.Plugins {
				names = append(names, g.Name)
			}
			hint := didYouMean(plugin, names)
			if hint == "" {
				hint = "stepfall plugin ls shows those that are found; a plugin block with a path adds one."
			}
			detail := ""
			if err.Error() != ErrNoPlugin.Error() {
				detail = err.Error()
			}
			l.complain(at, fmt.Sprintf("there is no plugin %q", plugin), detail, hint)
			return
		}
		l.warn(at, fmt.Sprintf("the config of plugin %q is not checked", plugin), err.Error(), "")
		return
	}
	if schema != nil {
		l.checkConfig(schema, c, plugin)
	}
}

// unused warns of what has no effect.
func (l *loader) unused(p *Policy) {
	for _, g := range p.Plugins {
		used := slices.ContainsFunc(p.Estimators, func(e Estimator) bool { return e.Plugin == g.Name }) ||
			slices.ContainsFunc(p.Verifiers, func(v Verifier) bool { return v.Plugin == g.Name })
		if !used && !l.diags.HasErrors() {
			names := make([]string, 0, len(p.Estimators)+len(p.Verifiers))
			for _, e := range p.Estimators {
				names = append(names, e.Plugin)
			}
			for _, v := range p.Verifiers {
				names = append(names, v.Plugin)
			}
			l.warn(l.blockOrigin([]string{"plugin", g.Name}), fmt.Sprintf("plugin %q is not used", g.Name), "No estimator or verifier names it.", didYouMean(g.Name, names))
		}
	}
	for _, name := range sortedKeys(l.localTree) {
		if id, ok := l.localTree[name].(leaf); ok && !l.usedLocals[name] {
			l.warn(l.values[id].at, fmt.Sprintf("local %q is not used", name), "", "")
		}
	}
	for _, m := range p.Models {
		if !l.diags.HasErrors() && !l.runs(p, m.Name) {
			l.warn(l.blockOrigin([]string{"model", m.Name}), fmt.Sprintf("model %q can never run", m.Name), "No strategy has it among its candidates.", "Add it to order, or remove it.")
		}
	}
	if p.Mode != "shadow" && p.Shadow != nil {
		l.warn(l.blockOrigin([]string{"shadow"}), "the shadow block has no effect", fmt.Sprintf("The mode is %s.", p.Mode), "")
	}
}

// runs reports whether any strategy can run the model.
func (l *loader) runs(p *Policy, model string) bool {
	may := func(s *Strategy, candidates []string) bool {
		return s != nil && (candidates == nil || slices.Contains(candidates, model)) && (s.Order == nil || slices.Contains(s.Order, model))
	}
	return p.Baseline == model || may(&p.Strategy, nil) ||
		slices.ContainsFunc(p.Matches, func(m Match) bool { return may(m.Strategy, m.Models) })
}
