package policies

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/redact"
)

// validate checks rules that involve several arguments: references, prices, budgets, unused blocks.
func (l *loader) validate(p *Policy) {
	names := modelNames(p)
	if len(names) == 0 && !l.faulty["model"] {
		l.complain(origin{rng: l.top}, "there is no model", "", `Add model "NAME" { provider = "openai" ... }, or include a policy that has some.`)
	}
	for i := range p.Models {
		l.checkModel(p, &p.Models[i])
	}
	l.checkCatalogDates(p)
	names = l.splitEmbedders(p, names)
	l.checkReferences(p, p.candidateNames())
	l.checkRates(p)
	l.checkStrategies(p, names)
	l.checkBudget(p)
	l.checkFit(p)
	l.checkMode(p)
	l.checkPlugins(p)
	l.warnWithoutEffect(p)
	l.warnBlindStrategies(p)
}

func (l *loader) splitEmbedders(p *Policy, names []string) []string {
	for i := range p.Models {
		if m := &p.Models[i]; m.embeds() {
			p.Embedders = append(p.Embedders, *m)
			if m.Provider == "anthropic" || m.Provider == "gemini" {
				l.complain(l.originAt("model", m.Name, "provider"), fmt.Sprintf("model %q makes embeddings, which stepfall cannot ask %s for", m.Name, m.Provider), "", "Use the provider openai (any server like it), mistral, ollama or go.")
			}
		}
	}
	if len(p.Embedders) == 0 {
		return names
	}
	p.Models = slices.DeleteFunc(p.Models, func(m Model) bool { return m.embeds() })
	names = modelNames(p)
	if len(names) == 0 {
		l.complain(l.blockOrigin([]string{"model", p.Embedders[0].Name}), "there is no model that answers", "Models with the capability embeddings are not candidates.", "Add one that does.")
	}
	return names
}

func (l *loader) checkReferences(p *Policy, names []string) {
	known := append(slices.Clone(names), "") // no baseline
	check := func(given []string, path ...string) {
		for i, g := range given {
			if len(names) > 0 && !slices.Contains(known, g) {
				l.complain(l.elementOrigin(i, path...), fmt.Sprintf("there is no model %q", g), "", suggest(g, names))
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

func (l *loader) checkRates(p *Policy) {
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		path := []string{"verifier", v.Name}
		told, rates := v.FalsePass != nil || v.FalseReject != nil, v.StatedRates()
		switch {
		case !v.Judges() && (told || v.Learn):
			l.complain(l.blockOrigin(path), fmt.Sprintf("verifier %q never passes an answer", v.Name), "Error rates are those of verdicts.",
				"Remove false_pass, false_reject and learn, or set as = \"verdict\".")
		case told && v.Learn:
			l.complain(l.originIn(path, "learn"), "error rates are both given and learned", "They must have one source.", "Remove learn, or false_pass and false_reject.")
		case rates != nil && rates.Validate() != nil:
			l.complain(l.originIn(path, "false_pass"), "false_pass + false_reject must be below 1", "Otherwise a pass is no evidence for an answer, or counts against it.",
				"Give the shares of wrong answers that it passes and of right ones that it rejects, such as 0.1 and 0.02.")
		}
	}
}

func (l *loader) checkStrategies(p *Policy, names []string) {
	l.checkStrategy(p, &p.Strategy, names, []string{"strategy", p.Strategy.Kind})
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
			l.checkStrategy(p, m.Strategy, candidates, append(path, "strategy", m.Strategy.Kind))
		}
		if everything != "" {
			l.warn(l.blockOrigin(path), fmt.Sprintf("match %q is never reached", m.Name), fmt.Sprintf("match %q has no conditions and comes before it.", everything),
				fmt.Sprintf("Move it above match %q: the first that applies counts.", everything))
		} else if m.When.Empty() {
			everything = m.Name
		}
	}
}

func (l *loader) checkStrategy(p *Policy, s *Strategy, candidates []string, path []string) {
	if s.Kind == "" {
		return
	}
	if own := p.Fit == nil || len(path) > 2; own {
		l.checkStrategyNumbers(s, path)
	} else {
		l.warnFitted(p.Fit.Profile, path)
	}
	for i, name := range s.Order {
		if slices.Contains(candidates, name) || !slices.Contains(modelNames(p), name) {
			continue
		}
		l.complain(l.elementOrigin(i, append(slices.Clone(path), "order")...), fmt.Sprintf("model %q is not a candidate here", name),
			"The candidates of this match are "+strings.Join(candidates, ", ")+".", "Remove it from order, or add it to models of the match.")
	}
	models := len(candidates)
	if s.Order != nil {
		models = len(s.Order)
	}
	if models != 0 {
		if n := max(len(s.Lambda), len(s.Threshold)); n > models {
			argument := "lambda"
			if len(s.Threshold) > 0 {
				argument = "threshold"
			}
			l.warn(l.originIn(path, argument), fmt.Sprintf("%s has %d values for %s", argument, n, plural(models, "model")), "The last ones are never used.", "Remove them.")
		}
		if s.MaxDepth > models {
			l.warn(l.originIn(path, "max_depth"), fmt.Sprintf("max_depth is %d, and there are %s", s.MaxDepth, plural(models, "model")), "", "Lower it, or leave the line out: there is no limit then.")
		}
	}
}

// warnFitted warns about numbers of a strategy that are overridden by its profile.
func (l *loader) warnFitted(profile string, path []string) {
	if l.o.WithoutProfile {
		return
	}
	for _, name := range []string{"worth_usd", "lambda", "threshold", "gamma", "scale"} {
		if l.isGiven(path, name) {
			l.warn(l.originIn(path, name), fmt.Sprintf("%s is ignored: it comes from the profile", name), fmt.Sprintf("The fit block names %s; without the block this %s applies.", profile, name), "")
		}
	}
}

// checkStrategyNumbers checks the numbers of a strategy that do not come from a profile.
func (l *loader) checkStrategyNumbers(s *Strategy, path []string) {
	hasLambda := l.isGiven(path, "lambda")
	switch {
	case s.Kind == "threshold" && !l.isGiven(path, "threshold"):
		l.complain(l.blockOrigin(path), "threshold is missing", "", "Add threshold = 0.8 (good enough from there on), or fit { profile = ... }.")
	case s.WorthUSD > 0 && hasLambda:
		l.complain(l.originIn(path, "lambda"), "lambda and worth_usd are mutually exclusive", "lambda is 1 / worth_usd.", "Remove lambda, or worth_usd.")
	case s.WorthUSD > 0:
		s.Lambda = []float64{1 / s.WorthUSD}
	case s.Kind != "threshold" && !hasLambda && !l.faulty[strings.Join(path, delim)]:
		l.complain(l.blockOrigin(path), "worth_usd is missing", "It is what a right answer is worth; without it every model that might help is run.",
			"Add worth_usd = 0.05 (five cents), lambda = 0 for quality at any cost, or fit { profile = ... }.")
	}
}

func modelNames(p *Policy) []string {
	return namesOf(p.Models, func(m Model) string { return m.Name })
}

func (l *loader) checkFit(p *Policy) {
	if p.Fit == nil || p.Fit.Profile == "" || l.o.WithoutProfile {
		return
	}
	at := l.originAt("fit", "profile")
	written := p.Fit.Profile
	p.Fit.Profile = l.absolute(written)
	if _, err := os.Stat(p.Fit.Profile); err != nil {
		l.complain(at, fmt.Sprintf("there is no profile %s", written), "", fmt.Sprintf("Make it from recorded outcomes: stepfall fit --policy %s --outcomes FILE --budget USD --out %s.", p.Path, written))
		return
	}
	if l.o.CheckProfile == nil || l.diags.HasErrors() {
		return
	}
	expanded := *p
	expanded.Models = p.expandedModels()
	judged, err := l.o.CheckProfile(p.Fit.Profile, &expanded)
	if err != nil {
		l.complain(at, "the profile does not match the policy", err.Error(), "Fit again, or use the models and prices that it was made for.")
	}
	if names := p.UnjudgedModels(judged); len(names) > 0 && !l.o.HasVerifier {
		l.warn(at, "no verifier judges the answers of "+strings.Join(names, ", "), "The profile was fitted as if every answer were judged: what it costs and how good it is holds only then.",
			"Let a verifier judge them (models in its block), or fit to outcomes with its verdicts, without --verified. Ignore this if your program judges them (Verify in router.Options).")
	}
}

func (l *loader) checkMode(p *Policy) {
	if p.Mode != "enforce" && p.Mode != "" && p.Baseline == "" {
		l.complain(l.originAt("mode"), fmt.Sprintf("mode %s needs a baseline", p.Mode), "", `Add baseline = "...": the model that is called while stepfall only observes.`)
	}
	if p.Holdout != nil && p.Baseline == "" {
		l.complain(l.blockOrigin([]string{"holdout"}), "a holdout needs a baseline", "", `Add baseline = "...": the model that is asked by the runs that the policy is compared with.`)
	}
	if p.Mode == "shadow" && p.Shadow == nil {
		l.complain(l.originAt("mode"), "mode shadow needs a shadow block", "It spends money beside the baseline.", "Add shadow { max_usd = 5 }.")
	}
	if p.Stream.Mode == "passthrough" && len(p.expandedModels()) > 1 && len(p.Matches) == 0 && !p.Strategy.onlyRoutes() {
		l.complain(l.originAt("stream", "mode"), "passthrough needs a single candidate", "A strategy that may run a second model cannot take back what was streamed.",
			`Use mode = "commit", the strategy route, or max_depth = 1.`)
	}
	switch hasLogProbs := func(m Model) bool { return m.SDK().Capabilities.LogProbs }; {
	case p.Stream.MinTokenProbability <= 0:
	case !p.Stream.CancelDrafts:
		l.warn(l.originAt("stream", "min_token_probability"), "min_token_probability has no effect", "It only applies to cancel_drafts.", "Set cancel_drafts = true, or remove the line.")
	case !slices.ContainsFunc(p.Models, hasLogProbs):
		l.warn(l.originAt("stream", "min_token_probability"), "min_token_probability has no effect", "No model has log_probs among its capabilities.", `Add "log_probs" to the capabilities of those that give them, or remove the line.`)
	}
	for _, path := range []*string{&p.Budget.Ledger, &p.Trace.File, &p.Trace.Database} {
		if !strings.Contains(*path, "://") {
			*path = l.absolute(*path)
		}
	}
	l.warnPassword(p.Budget.Ledger, "budget", "ledger")
	l.warnPassword(p.Trace.Database, "trace", "database")
	if p.Trajectory.ShowFailures && p.Trajectory.Unit == "step" {
		l.warn(l.originAt("trajectory", "show_failures"), "show_failures has no effect", `With unit = "step" models share one attempt, so that there is no failed one to show.`, `Set unit = "attempt", or remove the line.`)
	}
	if p.Retry.MaxDelay < p.Retry.BaseDelay {
		l.warn(l.originAt("retry", "max_delay"), "max_delay is shorter than base_delay", fmt.Sprintf("No wait is longer than max_delay: %s.", p.Retry.MaxDelay), "Raise max_delay, or lower base_delay.")
	}
}

func (l *loader) warnPassword(address string, path ...string) {
	if redact.Addresses(address) != address {
		l.warn(l.originAt(path...), path[1]+" contains a password", "Whoever reads the policy has it.",
			"Remove it, and set PGPASSWORD, or the whole address in "+envPrefix+strings.ToUpper(path[0]+"__"+path[1])+".")
	}
}

func (l *loader) warnWithoutEffect(p *Policy) {
	used := append(namesOf(p.Estimators, func(e Estimator) string { return e.Plugin }), namesOf(p.Verifiers, func(v Verifier) string { return v.Plugin })...)
	for _, g := range p.Plugins {
		if !slices.Contains(used, g.Name) && !l.diags.HasErrors() {
			l.warn(l.blockOrigin([]string{"plugin", g.Name}), fmt.Sprintf("plugin %q is not used", g.Name), "No estimator or verifier names it.", cmp.Or(didYouMean(g.Name, used), "Name it by plugin = ... of an estimator or verifier, or remove the block."))
		}
	}
	for _, name := range sortedKeys(l.localTree) {
		if id, ok := l.localTree[name].(leaf); ok && !l.usedLocals[name] {
			l.warn(l.values[id].at, fmt.Sprintf("local %q is not used", name), "", fmt.Sprintf("Remove it, or use it as local.%s.", name))
		}
	}
	for _, m := range p.Models {
		if !l.diags.HasErrors() && !l.canRun(p, m.Name) {
			l.warn(l.blockOrigin([]string{"model", m.Name}), fmt.Sprintf("model %q can never run", m.Name), "No strategy has it among its candidates, and no config block names it as a judge.", "Add it to order, or remove it.")
		}
	}
	if p.Mode != "enforce" && p.Mode != "" && p.Holdout != nil {
		l.warn(l.blockOrigin([]string{"holdout"}), "the holdout block has no effect", fmt.Sprintf("The mode is %s: every run uses the baseline.", p.Mode), `Set mode = "enforce", or remove the block.`)
	}
	switch at := l.originAt("holdout", "share"); {
	case p.Holdout == nil:
	case p.Holdout.Share == 0:
		l.warn(at, "a holdout of 0 measures nothing", "No run uses the baseline.", "Set a share between 0 and 1, or remove the block.")
	case p.Holdout.Share == 1:
		l.warn(at, "with a holdout of 1 the policy never decides", "Every run uses the baseline.", `Set a share between 0 and 1, or mode = "observe".`)
	}
	if p.Mode != "shadow" && p.Shadow != nil {
		l.warn(l.blockOrigin([]string{"shadow"}), "the shadow block has no effect", fmt.Sprintf("The mode is %s.", p.Mode), `Set mode = "shadow", or remove the block.`)
	}
}

func (l *loader) canRun(p *Policy, model string) bool {
	may := func(s *Strategy, candidates []string) bool {
		return s != nil && (candidates == nil || slices.Contains(candidates, model)) && (s.Order == nil || slices.Contains(s.Order, model))
	}
	return p.Baseline == model || p.HasJudge(model) || may(&p.Strategy, nil) ||
		slices.ContainsFunc(p.Matches, func(m Match) bool { return may(m.Strategy, m.Models) })
}
