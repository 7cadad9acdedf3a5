package policies

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

func (l *loader) checkModel(p *Policy, m *Model) {
	m.Served = cmp.Or(m.Served, m.Name)
	path := []string{"model", m.Name}
	facts := p.facts(m)
	priced := l.hasPrice(m)
	if facts != nil {
		l.addFacts(m, facts, priced, path)
	} else if !priced && m.Provider != "" && !l.faulty[strings.Join(path, delim)] {
		l.reportUnpriced(p, m, path)
		return
	}
	at := append(slices.Clone(path), "price")
	switch hasPrices := m.Price != (Price{Free: m.Price.Free}); {
	case m.Price.Free && hasPrices:
		l.complain(l.originIn(at, "free"), fmt.Sprintf("model %q is free and has prices", m.Name), "", "Remove one of the two.")
	case !m.Price.Free && !l.faulty[strings.Join(at, delim)]:
		l.checkPrices(m, at, priced)
	}
	if m.ContextTokens > 0 && m.MaxOutputTokens > m.ContextTokens {
		l.complain(l.originAt(append(slices.Clone(path), "max_output_tokens")...), fmt.Sprintf("max_output_tokens of model %q exceed its context", m.Name),
			fmt.Sprintf("max_output_tokens is %d, context_tokens %d: prompt and answer together.", m.MaxOutputTokens, m.ContextTokens),
			"Raise context_tokens, or lower max_output_tokens.")
	}
	if m.Provider == "go" && (m.BaseURL != "" || m.APIKey.Name() != "") {
		l.warn(l.blockOrigin(path), fmt.Sprintf("base_url and api_key of model %q are not used", m.Name), `The application supplies models of the provider "go".`, "Remove them, or name the provider that serves the model.")
	}
	for _, d := range append([]Deployment{{BaseURL: m.BaseURL}}, m.Deployments...) {
		where := append(slices.Clone(path), "base_url")
		if d.Name != "" {
			where = append(slices.Clone(path), "deployment", d.Name, "base_url")
		}
		address, err := url.Parse(d.BaseURL)
		if err == nil && address.User != nil {
			password, _ := address.User.Password()
			l.secrets = append(l.secrets, password)
			l.complain(l.originAt(where...), "base_url contains credentials", "They would show in plans, logs and server errors.",
				`Remove them; a key belongs in api_key = env("NAME").`)
		}
		if d.BaseURL != "" && !strings.HasPrefix(d.BaseURL, "http://") && !strings.HasPrefix(d.BaseURL, "https://") {
			l.complain(l.originAt(where...), fmt.Sprintf("invalid URL %q", d.BaseURL), "", "A URL begins with http:// or https://.")
		}
	}
}

func (l *loader) reportUnpriced(p *Policy, m *Model, path []string) {
	key := m.Provider + "/" + m.Served
	hint := "Add price { ... } to the model"
	if m.Provider == "ollama" {
		hint += ", with free = true when running it costs nothing"
	}
	if question := didYouMean(key, namesOf(p.Catalog, func(c Catalog) string { return c.Name })); question != "" {
		hint = strings.Replace(question, "?", " (its price is known)?", 1) + " Otherwise a" + strings.TrimPrefix(hint, "A")
	}
	l.complain(l.blockOrigin(path), fmt.Sprintf("model %q has no price", m.Name), fmt.Sprintf("The catalogue does not know %s.", key), hint+".")
}

// checkPrices reports prices of 0 for a model that is not declared free, and missing ones if it has its own price block.
func (l *loader) checkPrices(m *Model, path []string, priced bool) {
	for _, one := range []struct {
		name string
		usd  float64
	}{{"input_usd_per_million", m.Price.Input}, {"output_usd_per_million", m.Price.Output}} {
		at := append(slices.Clone(path), one.name)
		given := l.isGiven(path, one.name)
		switch {
		case one.usd > 0 || m.embeds() && one.name == "output_usd_per_million":
		case given:
			l.complain(l.originAt(at...), fmt.Sprintf("%s of model %q is 0", one.name, m.Name), "", "If the model really costs nothing, set free = true instead of prices.")
		case priced:
			l.complain(l.originAt(at...), fmt.Sprintf("model %q has no %s", m.Name, one.name), "", "Add it to the price block. If the model really costs nothing, set free = true instead of prices.")
		}
	}
}

func (l *loader) addFacts(m *Model, facts *Catalog, priced bool, path []string) {
	origin := fmt.Sprintf("catalogue %s of %s", facts.Name, facts.AsOf)
	add := func(value string, keys ...string) {
		at := slices.Concat(path, keys)
		i := slices.IndexFunc(l.settings, func(s Setting) bool { return slices.Equal(s.Path, at) })
		l.settings[i].Value, l.settings[i].Origin = value, origin
	}
	addTokens := func(key string, to *int, tokens int) {
		if !l.isGiven(path, key) && tokens > 0 {
			*to = tokens
			add(fmt.Sprint(tokens), key)
		}
	}
	addTokens("context_tokens", &m.ContextTokens, facts.ContextTokens)
	addTokens("max_output_tokens", &m.MaxOutputTokens, min(facts.MaxOutputTokens, cmp.Or(m.ContextTokens, facts.MaxOutputTokens)))
	if !l.isGiven(path, "capabilities") && len(facts.Capabilities) > 0 {
		m.Capabilities = facts.Capabilities
		add(render(reflect.ValueOf(m.Capabilities)), "capabilities")
	}
	if !priced && !m.Price.Free { // but an override may have set some of the prices
		own := reflect.ValueOf(&m.Price).Elem()
		language().block("model").block("price").visit(reflect.ValueOf(facts.Price), []string{"price"}, func(keys []string, a *argument, v reflect.Value) {
			if !l.isGiven(append(slices.Clone(path), "price"), a.name) {
				own.Field(a.field).Set(v)
				add(render(v), keys...)
			}
		})
	}
}
