package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// Wrap returns a router for models that the program already has, without a policy file. The models are
// Options.Models, under the names by which providers serve them: prices, limits and capabilities come
// from the catalogue ("stepfall catalog" lists it).
//
// If the request has tools, two cheap models of different makers are called before the most expensive
// one, provided that two are cheap enough ([policies.Policy.CheapPair]). If their answers agree,
// the step ends; after one disagreement, the most expensive model handles the rest of the run. An answer
// that Options.Verify passes with certainty (Confidence 0 or 1) needs no second answer; after a less
// certain pass, answers are still compared.
//
// Without tools, worthUSD decides: the value of a right answer in US dollars. If Options.Verify is set, it
// judges the answers of a cascade that begins with the cheapest model. Otherwise each query is sent to one
// model, unless a free check rejects its answer, and a warning is logged. More expensive models are assumed
// to answer better; if you know more about your models, write a policy.
func Wrap(ctx context.Context, worthUSD float64, o Options) (*Router, error) {
	value := policies.Policy{Strategy: policies.Strategy{Kind: cascade.NameCascadeRoute, WorthUSD: worthUSD}}
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		value.Models = append(value.Models, policies.Model{Name: name, Provider: "go"})
	}
	load := func() (*policies.Policy, error) {
		p, err := policies.New("wrapped models", &value, o.load())
		if err != nil {
			return nil, fmt.Errorf("wrapping models: %w\nWrap knows models by the names of the catalogue (stepfall catalog). Give others to New or full.Open, in a policy whose model has provider = \"go\" and a price block", err)
		}
		return p, nil
	}
	p, err := load()
	if err != nil {
		return nil, err
	}
	if pair, err := p.CheapPair(); err == nil {
		comparePair(&value, pair)
		if o.Verify != nil {
			o.Verify = demoteUncertainPasses(o.Verify)
		}
		routed := p.Warnings
		if p, err = load(); err != nil {
			return nil, err
		}
		for _, d := range routed {
			if !slices.Contains(p.Warnings, d) {
				d.Summary = fmt.Sprintf("steps that offer tools compare answers of %s and %s; queries without tools: %s", pair.Cheap[0].Name, pair.Cheap[1].Name, d.Summary)
				p.Warnings = append(p.Warnings, d)
			}
		}
	}
	slices.SortFunc(p.Models, func(a, b policies.Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	for i := range p.Models {
		o.priorMeans = append(o.priorMeans, 0.55+0.2*float64(i)/float64(max(1, len(p.Models)-1)))
	}
	warnWrapped(loggerOrDefault(o.Logger), p)
	return New(ctx, p, o)
}

// warnWrapped logs each warning about the wrapped models, without the hints that concern a policy file. If
// there are any, a last line says what a program can set.
func warnWrapped(log policies.Logger, p *policies.Policy) {
	for _, d := range p.Warnings {
		if !strings.Contains(d.Detail, "\n") {
			d.Summary += ": " + d.Detail
		}
		log.Warn("stepfall: " + d.Summary)
	}
	if len(p.Warnings) > 0 && p.Trace.File == "" && p.Trace.Database == "" {
		log.Warn("stepfall: Options.Verify judges answers; Options.Traces, or STEPFALL__TRACE__FILE=traces.jsonl in the environment, records what each step did")
	}
}

// comparePair compares the answers of a pair in steps that offer tools, as `stepfall policy init` does.
func comparePair(p *policies.Policy, pair *policies.Pair) {
	tools := []string{"*"}
	p.Estimators = []policies.Estimator{{Name: "agreement", Plugin: "agreement", DoubtUpTo: policies.DoubtUpTo, When: policies.When{Tools: tools}}}
	p.Matches = []policies.Match{
		{Name: "hard", When: policies.When{Tools: tools, Setbacks: 1}, Strategy: &policies.Strategy{
			Kind: cascade.NameThreshold, Order: []string{pair.Large.Name, pair.Cheap[1].Name, pair.Cheap[0].Name}, Threshold: []float64{0},
		}},
		{Name: "tools", When: policies.When{Tools: tools}, Strategy: &policies.Strategy{
			Kind: cascade.NameThreshold, Order: []string{pair.Cheap[0].Name, pair.Cheap[1].Name, pair.Large.Name}, Threshold: []float64{0.9}, Answer: "last", Parallel: true,
		}},
	}
}

// demoteUncertainPasses makes an uncertain pass inconclusive in steps that offer tools, because the
// agreement of two models is better evidence.
func demoteUncertainPasses(verify sdk.VerifierFunc) sdk.VerifierFunc {
	return func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
		verdict, err := verify(ctx, req)
		if q, _ := verdict.Quality(); err != nil || verdict == nil || verdict.Outcome != sdk.Passed || q == 1 || len(req.Query.Tools) == 0 {
			return verdict, err
		}
		inconclusive := *verdict
		inconclusive.Outcome = sdk.Inconclusive
		inconclusive.Evidence = strings.TrimSpace(fmt.Sprintf("passed at %.2g: the answers of two models are compared all the same. %s", verdict.Confidence, verdict.Evidence))
		return &inconclusive, nil
	}
}

// load returns the options for loading a policy for a router, which needs the policy's secrets.
func (o *Options) load() policies.LoadOptions {
	l := o.Load
	l.RequireSecrets = true
	l.HasVerifier = l.HasVerifier || o.Verify != nil
	return l
}

// warn logs the warnings of a policy, to the default slog logger if logger is nil.
func warn(logger hclog.Logger, p *policies.Policy) {
	for _, d := range p.Warnings {
		if logger != nil {
			logger.Warn(d.Summary, "policy", p.Path, "line", d.Line, "detail", d.Detail, "hint", d.Hint)
			continue
		}
		slog.Warn("stepfall: " + d.String())
	}
}

// loggerOrDefault returns the logger, or the default slog logger if it is nil.
func loggerOrDefault(logger hclog.Logger) policies.Logger {
	if logger != nil {
		return logger
	}
	return slog.With("by", "stepfall")
}

type onceLogger struct {
	log policies.Logger

	mu     sync.Mutex
	logged map[string]bool
}

func (o *onceLogger) warn(key, message string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.logged[key] && len(o.logged) < maxReasons {
		o.logged[key] = true
		o.log.Warn(message, args...)
	}
}

// recoverPanics returns a sink that recovers from panics of next, so that steps go on, and logs the first.
func recoverPanics(next step.Sink, log *onceLogger) step.Sink {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, t *sdk.Trace) {
		defer func() {
			if p := recover(); p != nil {
				log.warn("panic of Options.Traces", "Options.Traces panicked, and traces are lost; logged once", "panic", p, "trace", t.ID)
			}
		}()
		next(ctx, t)
	}
}

// warnSteps returns a sink that logs, once each: steps that nothing judged, paid steps that run_usd does not count,
// tool calls on which Options.Verify, the only judge if isOnlyJudge, is inconclusive, and caps that were reached.
func warnSteps(log *onceLogger, p *policies.Policy, isOnlyJudge bool) step.Sink {
	return func(ctx context.Context, t *sdk.Trace) {
		isJudged := slices.ContainsFunc(t.Calls, func(c sdk.Call) bool { return c.Verdict != nil || c.Error != "" })
		if p.Unjudged != "" && ctx.Value(unpinnedKey{}) != nil && len(t.Calls) > 0 && !isJudged {
			log.warn("unjudged", "nothing judged the answer of a step; logged once", "policy", p.Path, "trace", t.ID, "detail", p.Unjudged)
		}
		if p.Budget.RunUSD > 0 && t.Run == "" && t.Session == "" && t.CostUSD > 0 {
			log.warn("run_usd", "run_usd does not count steps whose run has no name: set Info.Run or Info.Session, or a gateway's header; logged once", "policy", p.Path, "trace", t.ID)
		}
		for i := range t.Calls {
			if c := &t.Calls[i]; isOnlyJudge && len(c.Tools) > 0 && c.Verdict != nil && c.Verdict.Verifier == VerifyName && c.Verdict.Outcome == sdk.Inconclusive {
				log.warn(VerifyName, "Options.Verify is inconclusive on tool calls, and nothing else judges them: each goes to one model, by its price and WorthUSD; logged once", "trace", t.ID)
			}
		}
		if t.Mode == middleware.ShadowAlternative && strings.HasSuffix(t.Error, middleware.ShadowCapUsedUp) {
			log.warn(middleware.ShadowAlternative, middleware.ShadowCapUsedUp+": raise max_usd in the shadow block to continue", "trace", t.ID)
		}
		left := slices.IndexFunc(t.Infeasible, func(i sdk.Infeasible) bool { return strings.Contains(i.Reason, sdk.ErrBudgetExhausted.Error()) })
		if t.Stop == sdk.StopBudget && t.Chosen != "" && left >= 0 {
			log.warn("capped "+t.Tenant, "a cap ended a step, which returned the best answer so far; logged once for each tenant", "tenant", t.Tenant, "model", t.Infeasible[left].Model, "reason", t.Infeasible[left].Reason, "trace", t.ID)
		}
	}
}

// maxSilentVerdicts is the number of inconclusive verdicts after which a verifier is reported.
const maxSilentVerdicts = 10

// warnInconclusive returns a sink that logs once for each verifier whose first verdicts are all
// inconclusive, which suggests a broken program.
func warnInconclusive(log *onceLogger, secrets *redact.Redactor) step.Sink {
	var mu sync.Mutex
	silent, speaks := map[string]int{}, map[string]bool{}
	return func(_ context.Context, t *sdk.Trace) {
		mu.Lock()
		defer mu.Unlock()
		for i := range t.Calls {
			v := t.Calls[i].Verdict
			if v == nil || speaks[v.Verifier] {
				continue
			}
			speaks[v.Verifier] = v.Outcome != sdk.Inconclusive || v.Confidence > 0 // an uncertain pass
			if silent[v.Verifier]++; !speaks[v.Verifier] && silent[v.Verifier] == maxSilentVerdicts {
				log.warn("silent "+v.Verifier, fmt.Sprintf("the first %d verdicts of a verifier were all inconclusive; logged once", maxSilentVerdicts), "verifier", v.Verifier, "reason", secrets.Text(v.Evidence), "trace", t.ID)
			}
		}
	}
}

// warnLeftOut returns a sink that logs, once for each model and reason, that a server rejected a request, a
// model gave no answer, or none in its caller's time, or a model was excluded because its circuit is open or it lacks a tool; once for
// each estimator and verifier that was unavailable; and once for each verifier that cost more than its
// max_usd, is paused because of it, or did not fit under a cap.
func warnLeftOut(log *onceLogger, secrets *redact.Redactor) step.Sink {
	leftOut := func(message string, t *sdk.Trace, model, reason string) {
		log.warn(model+" "+digits.ReplaceAllString(reason, "0"), message+"; logged once for each model and reason", "model", model, "reason", secrets.Text(reason), "trace", t.ID)
	}
	return func(ctx context.Context, t *sdk.Trace) {
		for i := range t.Calls {
			switch c := &t.Calls[i]; {
			case c.StopReason == sdk.StopReasonRefused:
				leftOut("a model's server rejected a request", t, c.Model, c.Error)
			case c.Failed() && t.Stop == sdk.StopDeadline && errors.Is(ctx.Err(), context.DeadlineExceeded) && middleware.IsSent(c):
				leftOut("a model gave no answer before its caller's deadline, and may bill the call; a timeout of the model below that deadline lets another model answer", t, c.Model, c.Error)
			case !c.Failed() || ctx.Err() != nil || !middleware.IsSent(c), strings.HasSuffix(c.Error, sdk.ErrBudgetExhausted.Error()):
			case !slices.ContainsFunc(t.Calls[i+1:], func(later sdk.Call) bool { return later.Model == c.Model && later.Error == "" }):
				leftOut("a model gave no answer in a step", t, c.Model, c.Error)
			}
		}
		for _, out := range t.Infeasible {
			switch {
			case strings.HasPrefix(out.Reason, middleware.ReasonNoTool):
				leftOut("a model is excluded because it lacks a tool; optional_tools may omit the tool", t, out.Model, out.Reason)
			case out.Reason == middleware.ReasonCircuitOpen:
				leftOut("a model is temporarily excluded", t, out.Model, out.Reason)
			}
		}
		for i := range t.Decisions {
			if t.Decisions[i].Note == "" {
				continue
			}
			for note := range strings.SplitSeq(t.Decisions[i].Note, "; ") {
				if who, _, isAway := strings.Cut(note, " unavailable"); isAway {
					log.warn(who, who+" unavailable, so steps are decided without it; logged once", "reason", secrets.Text(note), "trace", t.ID)
				}
				if who, _, isPaused := strings.Cut(note, step.NotePaused); isPaused {
					log.warn("paused "+who, "max_usd or timeout stops the verdicts of a verifier, whose cost is wasted: raise them in its block, or start the workers that it runs on; until then it is called less and less often; logged once", "reason", secrets.Text(note), "trace", t.ID)
				}
				if who, _, isLeftOut := strings.Cut(note, step.NoteNoRoom); isLeftOut {
					log.warn("no room "+who, who+" is skipped where a cap has no room for the highest cost of its verdicts so far, or for its max_usd, and does not judge those answers; logged once", "reason", secrets.Text(note), "trace", t.ID)
				}
				if who, _, isDear := strings.Cut(note, step.NoteOverMaxCost); isDear {
					log.warn("dear "+who, "a verdict cost more than max_usd, so caps may have been exceeded; from now on that much is reserved for each; logged once", "reason", secrets.Text(note), "trace", t.ID)
				}
			}
		}
	}
}

// digits matches the parts of an error that differ between requests: ids and positions.
var digits = regexp.MustCompile(`[0-9]+|\(request [^)]*\)`)

// maxReasons limits the number of distinct warnings.
const maxReasons = 1000

// unpinnedKey is the context key that marks a step whose model the policy chooses.
type unpinnedKey struct{}

// markUnpinned marks the context of a step that is not pinned to a model, for warnUnjudged: in a pinned step
// a verdict changes nothing.
func (s *setup) markUnpinned(ctx context.Context, options []llms.CallOption) context.Context {
	if s.policy.Unjudged == "" {
		return ctx
	}
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	if slices.ContainsFunc(s.policy.Models, func(m policies.Model) bool { return m.Name == o.Model }) {
		return ctx
	}
	return context.WithValue(ctx, unpinnedKey{}, true)
}
