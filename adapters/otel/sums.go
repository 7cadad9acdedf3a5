package otel

import (
	"cmp"
	"context"
	"maps"
	"math"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// sums are counters by model and tenant.
type sums struct {
	steps, calls, tokens, escalations, refusals metric.Int64Counter
	spent                                       *usdSums
	decision                                    metric.Float64Histogram
	tenants, models, reasons                    *boundedSet
	accounts                                    *tenantAccounts
}

// maxLabels limits the number of values of a label: further tenants or models are reported as "other".
const maxLabels = 100

func newSums(meter metric.Meter) (s sums, err error) {
	s.tenants, s.models, s.reasons, s.accounts = &boundedSet{}, &boundedSet{}, &boundedSet{}, &tenantAccounts{}
	counter := func(into *metric.Int64Counter, name, unit, what string) {
		if err == nil {
			*into, err = meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		}
	}
	counter(&s.steps, "stepfall.steps", "{step}", "Steps, by the model of the answer, tenant, reason to stop and mode")
	counter(&s.calls, "stepfall.calls", "{call}", "Calls of models, by model, tenant and result: answer, error, or refused where the request was")
	counter(&s.tokens, "stepfall.tokens", "{token}", "Tokens, by model, tenant and direction")
	counter(&s.escalations, "stepfall.escalations", "{step}", "Steps that asked another model after an answer, by tenant")
	counter(&s.refusals, "stepfall.requests.refused", "{request}", "Requests that the gateway itself turned away, by reason: unknown_key, forbidden, rate_limit, budget or store_unavailable")
	if err == nil {
		s.spent, err = newUSDSums(meter)
	}
	if err == nil {
		err = s.accounts.observe(meter)
	}
	if err == nil {
		s.decision, err = meter.Float64Histogram("stepfall.decision.duration", metric.WithUnit("s"),
			metric.WithDescription("Time of a step that was neither in models, estimators nor verifiers"),
			metric.WithExplicitBucketBoundaries(1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1))
	}
	return s, err
}

func (s *sums) add(ctx context.Context, t *sdk.Trace) {
	tenant := attribute.String("tenant", s.tenants.label(t.Tenant))
	s.steps.Add(ctx, 1, metric.WithAttributes(tenant, attribute.String("model", s.models.label(t.Chosen)),
		attribute.String("stop", string(t.Stop)), attribute.String("mode", t.Mode)))
	s.decision.Record(ctx, t.Overhead.Seconds())
	own := t.ForSums()
	rest := own.CostUSD
	for i := range own.Calls {
		c := &own.Calls[i]
		if own != t || !middleware.IsSent(c) { // an attempt's calls have their own traces
			continue
		}
		rest -= c.CostUSD
		model := attribute.String("model", s.models.label(c.Model))
		result := "answer"
		switch {
		case c.StopReason == sdk.StopReasonRefused:
			result = "refused"
		case c.Failed():
			result = "error"
		case c.Error != "":
			result = "cancelled"
		}
		s.calls.Add(ctx, 1, metric.WithAttributes(model, tenant, attribute.String("result", result)))
		s.spent.add(model.Value.AsString(), tenant.Value.AsString(), c.CostUSD)
		s.tokens.Add(ctx, int64(c.Usage.InputTokens+c.Usage.CachedInputTokens+c.Usage.CacheWriteTokens), metric.WithAttributes(model, tenant, attribute.String("direction", "input")))
		s.tokens.Add(ctx, int64(c.Usage.OutputTokens+c.Usage.ReasoningTokens), metric.WithAttributes(model, tenant, attribute.String("direction", "output")))
	}
	if rest > leastUSD/2 {
		s.spent.add(say.Verdicts, tenant.Value.AsString(), rest)
	}
	if middleware.HasEscalated(own) {
		s.escalations.Add(ctx, 1, metric.WithAttributes(tenant))
	}
	s.accounts.record(ctx, tenant.Value.AsString(), t)
}

// leastUSD is the unit in which dollars are summed, so that sums of many small amounts are exact.
const leastUSD = 1e-12

type usdSums struct {
	mu sync.Mutex
	of map[[2]string]int64 // in units of leastUSD
}

func newUSDSums(meter metric.Meter) (*usdSums, error) {
	u := &usdSums{of: map[[2]string]int64{}}
	_, err := meter.Float64ObservableCounter("stepfall.spent", metric.WithUnit("{USD}"),
		metric.WithDescription("US dollars, by model and tenant; those of verification have the model "+say.Verdicts), metric.WithFloat64Callback(u.observe))
	return u, err
}

func (u *usdSums) add(model, tenant string, usd float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[[2]string{model, tenant}] += int64(math.Round(max(0, usd) / leastUSD))
}

func (u *usdSums) observe(_ context.Context, o metric.Float64Observer) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for by, n := range u.of {
		o.Observe(float64(n)/(1/leastUSD), metric.WithAttributes(attribute.String("model", by[0]), attribute.String("tenant", by[1])))
	}
	return nil
}

// CountRefusal counts a request that a gateway rejected, by reason.
func (s *sums) CountRefusal(ctx context.Context, reason string) {
	s.refusals.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", s.reasons.label(reason))))
}

func bounds(o metric.Observer, gauge metric.Float64Observable, tenant attribute.KeyValue, i *holdout.Interval) {
	if i == nil {
		return
	}
	for name, value := range map[string]float64{"estimate": i.Estimate, "low": i.Low, "high": i.High} {
		o.ObserveFloat64(gauge, value, metric.WithAttributes(tenant, attribute.String("bound", name)))
	}
}

// tenantAccounts has an account for each tenant and one for all tenants. The baseline is estimated from the steps
// of an account, so the tenants' savings do not add up to those of all.
type tenantAccounts struct {
	all savings.Account
	mu  sync.Mutex
	of  map[string]*savings.Account
}

func (a *tenantAccounts) record(ctx context.Context, tenant string, t *sdk.Trace) {
	a.all.Record(ctx, t)
	a.tenant(tenant).Record(ctx, t)
}

func (a *tenantAccounts) observe(meter metric.Meter) error {
	saved, err1 := meter.Float64ObservableUpDownCounter("stepfall.saved", metric.WithUnit("{USD}"),
		metric.WithDescription("What always asking the dearest model would have cost, less what was spent, by tenant; 0 with one model alone"))
	savedByAll, err2 := meter.Float64ObservableUpDownCounter("stepfall.saved.all", metric.WithUnit("{USD}"),
		metric.WithDescription("The same of all tenants together, as traces and pages show it, which is not the sum of the tenants'"))
	quality, err3 := meter.Float64ObservableGauge("stepfall.quality",
		metric.WithDescription("How good the returned answers are, by tenant: the share that verifiers passed where any judged (basis measured), else the mean estimate (guessed)"))
	gain, err4 := meter.Float64ObservableGauge("stepfall.holdout.saved",
		metric.WithDescription("The share of the baseline's cost of a run that the policy saves, by tenant, as a holdout measures it, and the bounds of its interval (bound estimate, low, high)"))
	success, err5 := meter.Float64ObservableGauge("stepfall.holdout.success",
		metric.WithDescription("By how much the share of right runs is above the baseline's, by tenant, as a holdout measures it, and the bounds of its interval (bound estimate, low, high)"))
	failures, err6 := meter.Float64ObservableGauge("stepfall.holdout.failures",
		metric.WithDescription("By how much the share of runs reported as failed is above the baseline's, of all runs, by tenant, as a holdout measures it, and the bounds of its interval (bound estimate, low, high)"))
	if err := cmp.Or(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(savedByAll, a.all.Result().SavedUSD)
		a.mu.Lock()
		accounts := maps.Clone(a.of)
		a.mu.Unlock()
		for name, account := range accounts {
			r, tenant := account.Result(), attribute.String("tenant", name)
			o.ObserveFloat64(saved, r.SavedUSD, metric.WithAttributes(tenant))
			if r.Holdout != nil {
				bounds(o, gain, tenant, r.Holdout.Saved)
				bounds(o, success, tenant, r.Holdout.Success)
				bounds(o, failures, tenant, r.Holdout.Failures)
			}
			if r.Quality.N == 0 {
				continue
			}
			basis := "guessed"
			if r.Quality.IsMeasured() {
				basis = "measured"
			}
			o.ObserveFloat64(quality, r.Quality.Mean, metric.WithAttributes(tenant, attribute.String("basis", basis)))
		}
		return nil
	}, saved, savedByAll, quality, gain, success, failures)
	return err
}

func (a *tenantAccounts) tenant(name string) *savings.Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	return lookup.Entry(&a.of, name)
}

// boundedSet limits the number of values of a label.
type boundedSet struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (b *boundedSet) label(value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.seen[value]:
		return value
	case len(b.seen) >= maxLabels:
		return "other"
	case b.seen == nil:
		b.seen = map[string]bool{}
	}
	b.seen[value] = true
	return value
}
