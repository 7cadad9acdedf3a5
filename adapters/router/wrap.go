package router

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// Wrap puts models to work that the program has in hand, without a policy file. They
// are Options.Models, by the names under which providers serve them: prices, limits and
// capabilities come from the catalogue ("stepfall policy show --catalog" lists it).
// WorthUSD is what a right answer is worth, in US dollars. Options.Verify tells right
// answers from wrong ones, and makes it a cascade from the cheapest model up; without it
// each query goes to one model, unless a free check rejects its answer, and a warning
// says so. Dearer models are believed to answer better; what is known better goes into a
// policy.
func Wrap(ctx context.Context, worthUSD float64, o Options) (*Router, error) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		fmt.Fprintf(&text, "model %q {\n  provider = \"go\"\n}\n", name)
	}
	fmt.Fprintf(&text, "strategy \"cascade_route\" {\n  worth_usd = %v\n}\n", worthUSD)
	p, err := policies.Parse("wrapped models", []byte(text.String()), o.load())
	if err != nil {
		return nil, fmt.Errorf("wrapping models: %w\nWhat the catalogue does not know goes into a policy: provider = \"go\" and a price block", err)
	}
	slices.SortFunc(p.Models, func(a, b policies.Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	for i := range p.Models {
		p.Models[i].Quality.Mean = 0.55 + 0.2*float64(i)/float64(max(1, len(p.Models)-1))
	}
	warn(o.Logger, p)
	return New(ctx, p, o)
}

// load returns how a policy is loaded for a router: keys that it names must be there.
func (o *Options) load() policies.LoadOptions {
	l := o.Load
	l.RequireSecrets = true
	l.Looked = l.Looked || o.Verify != nil
	return l
}

// warn tells the logger, or where there is none the process's own log, what is doubtful
// about a policy.
func warn(logger hclog.Logger, p *policies.Policy) {
	for _, d := range p.Warnings {
		if logger != nil {
			logger.Warn(d.Summary, "policy", p.Path, "line", d.Line, "detail", d.Detail, "hint", d.Hint)
			continue
		}
		slog.Warn("stepfall: " + d.String())
	}
}

// lost tells of traces that could not be written.
func lost(logger hclog.Logger, err error) {
	if logger != nil {
		logger.Error("traces are lost", "error", err)
		return
	}
	slog.Error("stepfall: traces are lost", "error", err)
}

// unjudged tells of the first step whose answers nothing looked at, where the policy's
// verifiers are only for other queries than it gets.
func unjudged(logger hclog.Logger, p *policies.Policy) step.Sink {
	var told atomic.Bool
	return func(ctx context.Context, t *sdk.Trace) {
		if ctx.Value(choosing{}) == nil || len(t.Calls) == 0 || slices.ContainsFunc(t.Calls, func(c sdk.Call) bool { return c.Verdict != nil || c.Error != "" }) || told.Swap(true) {
			return
		}
		if logger != nil {
			logger.Warn("nothing looked at the answer of a step; that is said once", "policy", p.Path, "trace", t.ID, "detail", p.Unjudged)
			return
		}
		slog.Warn("stepfall: nothing looked at the answer of a step (said once): "+p.Unjudged, "policy", p.Path, "trace", t.ID)
	}
}

// warnLeftOut returns a sink that logs once, for each model and reason, that a server
// refused the request of a step, or that a model was not asked since it lacks a tool; and
// once for each estimator and verifier that it could not be had.
func warnLeftOut(logger hclog.Logger, secrets *redact.Redactor) step.Sink {
	var mu sync.Mutex
	logged := map[string]bool{}
	warn := func(key, message, once string, args ...any) {
		mu.Lock()
		known := logged[key] || len(logged) >= maxReasons
		if !known {
			logged[key] = true
		}
		mu.Unlock()
		switch {
		case known:
		case logger != nil:
			logger.Warn(message+"; that is said once"+once, args...)
		default:
			slog.Warn("stepfall: "+message+" (said once"+once+")", args...)
		}
	}
	leftOut := func(message string, t *sdk.Trace, model, reason string) {
		warn(model+" "+digits.ReplaceAllString(reason, "0"), message, " for each model and reason", "model", model, "reason", secrets.Text(reason), "trace", t.ID)
	}
	return func(_ context.Context, t *sdk.Trace) {
		for i := range t.Calls {
			if c := &t.Calls[i]; c.StopReason == sdk.StopReasonRefused {
				leftOut("a model refused a request", t, c.Model, c.Error)
			}
		}
		for _, out := range t.Infeasible {
			if strings.HasPrefix(out.Reason, middleware.ReasonNoTool) {
				leftOut("a model is not asked, since it lacks a tool that optional_tools may leave out", t, out.Model, out.Reason)
			}
		}
		for i := range t.Decisions {
			for note := range strings.SplitSeq(t.Decisions[i].Note, "; ") {
				if who, _, isAway := strings.Cut(note, " unavailable"); isAway {
					warn(who, who+" cannot be had, and steps are decided without it", "", "reason", secrets.Text(note), "trace", t.ID)
				}
			}
		}
	}
}

// digits are what differs in a refusal from one request to the next: ids and places.
var digits = regexp.MustCompile(`[0-9]+|\(request [^)]*\)`)

// maxReasons bounds how many reasons are told apart.
const maxReasons = 1000

// choosing is the key that a context has in a step whose model the policy chooses.
type choosing struct{}

// choosing marks the context of a step that is not pinned to a model: one that is, as
// those of swe's attempts are, would come to no other answer by a look.
func (s *setup) choosing(ctx context.Context, options []llms.CallOption) context.Context {
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
	return context.WithValue(ctx, choosing{}, true)
}
