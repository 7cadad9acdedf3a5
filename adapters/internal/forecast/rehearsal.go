package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// rehearsal runs one policy in one world.
type rehearsal struct {
	policy *policies.Policy
	world  World
	f      *Forecast
	keep   bool
	seed   uint64

	assembly *router.Assembly
	engine   *step.Engine
	shadow   *step.Engine // only in mode shadow

	// The history of one round: accounts, conversations and the clock.
	round    int
	accounts *step.Memory
	sessions *middleware.Sessions
	last     map[string]string       // last model of each session
	read     map[[4]string][]float64 // lengths of prompts by tenant, run, model and whether there were tools
	clock    time.Time
	// held holds, by run of all rounds, whether it is held out.
	held map[string]bool
	// expected holds the expected lengths of answers, by model.
	expected map[string]int
	// n is the current query, and truth the outcomes of models on it. mu guards them against concurrent calls.
	mu    sync.Mutex
	n     int
	truth map[string]Outcome
	// verifierSignals holds the signals of answers, by model, that only verifiers return.
	verifierSignals map[string]map[string]float64
	// rates holds the error rates of verifiers by name; nil for one that is assumed to be always right.
	rates map[string]*cascade.Rates
	// agreement models how answers agree; nil if they are not compared. trial is the index of the current trial.
	agreement *agreement
	trial     int
	// places are the queries of the current trial, in order.
	places []place
}

// place is a query in a trial. A run that is drawn twice counts as two runs.
type place struct {
	query, cluster int
	at             time.Time
}

func rehearse(p *policies.Policy, w World, f *Forecast, o *Options) (*rehearsal, error) {
	r := &rehearsal{policy: p, world: w, f: f, keep: o.Keep, seed: o.Seed, round: -1, truth: map[string]Outcome{}, verifierSignals: map[string]map[string]float64{}, held: map[string]bool{}, expected: map[string]int{}}
	for i := range p.Models {
		r.expected[p.Models[i].Name] = p.Models[i].ExpectedOutputTokens
	}
	if o.Estimator != nil && p.Fit != nil {
		own := *p
		own.Fit = nil
		p = &own
	}
	var err error
	if r.assembly, err = router.Assemble(p, o.Seed, r.now, judges{r}); err != nil {
		return nil, err
	}
	if _, ok := w.(*Table); ok {
		r.assembly.Sessions.DoubtUpTo = 0 // a table has neither runs nor tool calls
	}
	if slices.ContainsFunc(p.Estimators, func(e policies.Estimator) bool { return e.BuiltIn() }) {
		stated := make([]float64, len(p.Models))
		for i := range p.Models {
			stated[i] = p.Models[i].Quality.StatedMean()
		}
		models := make([]Model, len(p.Models))
		for i, mean := range estimate.PriorMeans(p.SDKModels(), stated) {
			m := &p.Models[i]
			models[i] = Model{Name: m.Name, Provider: m.Provider, Served: m.Served, Price: m.Price.SDK(), Quality: sdk.Estimate{Mean: mean}}
		}
		if t, ok := w.(*Traces); ok {
			r.agreement = t.agreement(models)
			f.Compared = r.agreement.queries
		} else {
			r.agreement = newAgreement(models, 0)
		}
	}
	c := r.assembly.Step
	if t, ok := w.(*Traces); ok && t.judgedByProgram() {
		c.Verifiers = append(c.Verifiers, step.Verifier{Name: router.VerifyName, Verifier: judges{r}.truth(router.VerifyName)})
	}
	if o.Estimator != nil {
		c.Estimators = append(c.Estimators, step.Estimator{Name: "fitted", Estimator: o.Estimator.QualityEstimator()})
		c.Cost = o.Estimator.CostEstimator()
		router.SetRates(c.Verifiers, p, o.Estimator.Judges)
	}
	r.rates = map[string]*cascade.Rates{}
	for i := range c.Verifiers {
		r.rates[c.Verifiers[i].Name] = c.Verifiers[i].Rates
	}
	c.Checks, c.Explain = []step.Check{{Name: "check:recorded", Fault: r.recordedFault}}, o.Explain
	// As many failures as were recorded, without backoff.
	c.Retry.BaseDelay, c.Retry.MaxDelay, c.CapWait = 1, 1, 0
	if r.assembly.Caps.Any() {
		c.Ledger = ledger{r}
	}
	if r.engine, err = step.New(c); err != nil || p.Mode != string(middleware.Shadow) {
		return r, err
	}
	c.Ledger, c.FailAtCap = oneAccount{step.NewMemory(step.Caps{TenantUSD: p.Shadow.MaxUSD})}, false
	r.shadow, err = step.New(c)
	return r, err
}

// uncheckedJudges names the verifiers whose error rates are known from neither the policy's profile nor the world's
// outcomes.
func (r *rehearsal) uncheckedJudges(o *Options) []string {
	learned := r.assembly.Learned
	if o.Estimator != nil {
		learned = o.Estimator.Judges
	}
	t, ok := r.world.(*Table)
	return slices.DeleteFunc(r.policy.UncheckedJudges(learned), func(judge string) bool { return ok && t.Outcomes.Verdicts[judge] != nil })
}

func (r *rehearsal) now() time.Time { return r.clock }

type ledger struct{ r *rehearsal }

func (l ledger) Reserve(ctx context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	return l.r.accounts.Reserve(ctx, q, usd)
}

type oneAccount struct{ *step.Memory }

func (l oneAccount) Reserve(ctx context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	return l.Memory.Reserve(ctx, &sdk.Query{}, usd)
}

// begin moves to the k-th place, and resets the history if a new round begins.
func (r *rehearsal) begin(k int) {
	n := r.places[k].query
	round := n
	if h, ok := r.world.(history); ok {
		round, _ = h.When(n)
	}
	round += r.trial * r.world.Len()
	r.n, r.clock = n, r.places[k].at
	if round == r.round {
		return
	}
	r.round = round
	r.accounts = step.NewMemory(r.assembly.Caps)
	r.accounts.Now = r.now
	if k == 0 || r.assembly.Sessions.DoubtUpTo == 0 { // the budget for doubts is shared by all rounds
		r.sessions = middleware.NewSessions(r.assembly.Sessions, r.engine.Models(), r.now)
	}
	r.last, r.read = map[string]string{}, map[[4]string][]float64{}
}

// trials returns how often all queries are run: once for each resampling of runs, or for each shift of the agreement.
func (r *rehearsal) trials() int {
	switch {
	case r.resamples():
		return resamplings
	case r.agreement == nil:
		return 1
	}
	return len(r.agreement.shifts)
}

const resamplings = 24

// resamples reports whether each trial draws its runs from the recorded ones, with replacement. Which tools are
// doubted depends on the counts of one process, and a single replay does not show how much another process with
// similar runs would differ.
func (r *rehearsal) resamples() bool {
	_, ok := r.world.(*Traces)
	return ok && r.assembly.Sessions.DoubtUpTo > 0
}

// shareOfQueries converts progress to k places of the current trial to a number of the world's queries.
func (r *rehearsal) shareOfQueries(k int) int {
	n := r.world.Len()
	return (r.trial*n + k*n/len(r.places)) / r.trials()
}

// order returns the queries of the current trial. A resampled run starts at the time of the recorded run that it
// replaces.
func (r *rehearsal) order(clusters []int) []place {
	list := make([]place, len(clusters))
	for n := range list {
		list[n] = place{query: n, cluster: clusters[n], at: time.Unix(0, 0)}
		if h, ok := r.world.(history); ok {
			_, list[n].at = h.When(n)
		}
	}
	if !r.resamples() {
		return list
	}
	var runs [][]place
	of := map[int]int{}
	for _, p := range list {
		if _, ok := of[p.cluster]; !ok {
			of[p.cluster] = len(runs)
			runs = append(runs, nil)
		}
		runs[of[p.cluster]] = append(runs[of[p.cluster]], p)
	}
	rng := rand.New(rand.NewPCG(r.seed, uint64(r.trial)))
	var drawn []place
	for i := range runs {
		for _, p := range runs[rng.IntN(len(runs))] {
			p.at = runs[i][0].at.Add(p.at.Sub(runs[of[p.cluster]][0].at))
			p.cluster = i
			drawn = append(drawn, p)
		}
	}
	slices.SortStableFunc(drawn, func(a, b place) int { return a.at.Compare(b.at) })
	return drawn
}

// clusters returns, for each query, its cluster: queries in the same one are not independent.
func (r *rehearsal) clusters() []int {
	if t, ok := r.world.(*Traces); ok {
		return t.clusters()
	}
	list := make([]int, r.world.Len())
	for n := range list {
		list[n] = n
	}
	return list
}

func (r *rehearsal) runQuery(ctx context.Context, k int) error {
	r.begin(k)
	n, cluster := r.n, r.places[k].cluster
	own := *r.world.Query(n)
	q := &own
	q.Features = maps.Clone(q.Features)
	if q.Features == nil {
		q.Features = map[string]float64{}
	}
	if _, ok := r.world.(*Beliefs); ok && q.Run != "" {
		q.Run = fmt.Sprint(q.Run, " ", r.round) // a run of another round is another run
	}
	if r.resamples() {
		for _, name := range []*string{&q.Run, &q.Session, &q.Conversation} {
			if *name != "" {
				*name = fmt.Sprint(*name, " ", cluster)
			}
		}
	}
	r.sessions.AddFeatures(q)
	clear(r.truth)
	clear(r.verifierSignals)
	req := step.Request{Query: q, Caller: step.CallerFunc(r.call), CostOffsets: r.sessions.Offsets(q.Session)}
	var route middleware.Route
	if r.assembly.Route != nil {
		route = r.assembly.Route(q)
		req.Strategy, req.Parallel, req.Done, req.Exclude = route.Strategy, route.Parallel, route.Done, route.Exclude
	}
	if h := r.policy.Holdout; h != nil && r.holdsOut(q, h.Share) {
		req.Only, req.Holdout = r.policy.Baseline, &sdk.Holdout{Share: h.Share, Baseline: true}
	}
	if mode := middleware.Mode(r.policy.Mode); mode != "" && mode != middleware.Enforce {
		req.Only, req.Observe = r.policy.Baseline, true
	}
	res, err := r.engine.Run(ctx, req)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if res == nil || res.Trace == nil {
		return fmt.Errorf("query %d: %w", n, err)
	}
	if err := r.f.add(sample{trial: r.trial, cluster: cluster}, res, r.truth, err); err != nil {
		return fmt.Errorf("query %d: %w", n, err)
	}
	r.f.Matches[route.Match]++
	r.f.InputTokens += float64(q.InputTokens)
	r.sessions.RecordDispute(q, res)
	if q.Session != "" && res.Answer != nil {
		r.sessions.RecordUse(q.Session, res)
		if before, known := r.last[q.Session]; known && before != res.Trace.Chosen {
			r.f.Moves++
		}
		r.last[q.Session] = res.Trace.Chosen
	}
	if r.keep && r.trial == 0 {
		r.f.Traces = append(r.f.Traces, res.Trace)
	}
	return r.runShadow(ctx, req, res)
}

// holdsOut reports whether the run of a query is held out, as every 1/share-th is.
func (r *rehearsal) holdsOut(q *sdk.Query, share float64) bool {
	unit := fmt.Sprint(r.round, " ", holdout.Unit(q.Tenant, q.Run, cmp.Or(q.Session, q.Conversation), fmt.Sprint(r.n)))
	isHeld, known := r.held[unit]
	if !known {
		n := float64(len(r.held))
		isHeld = int((n+1)*share) > int(n*share)
		r.held[unit] = isHeld
	}
	return isHeld
}

// runShadow runs the strategy on the share of queries with a shadow. The baseline's answer is already paid for.
func (r *rehearsal) runShadow(ctx context.Context, req step.Request, baseline *step.Result) error {
	share := 0.0
	if r.shadow != nil {
		share = r.policy.Shadow.Share
	}
	// Every 1/share-th query.
	if int(float64(r.n+1)*share) == int(float64(r.n)*share) {
		return nil
	}
	req.Only, req.Observe = "", false
	if len(baseline.Attempts) > 0 {
		req.Paid = &baseline.Attempts[0]
	}
	res, _ := r.shadow.Run(ctx, req) // failed steps cost too
	if res != nil && res.Trace != nil {
		r.f.ShadowUSD += res.Trace.CostUSD
	}
	return ctx.Err()
}

var errRecorded = errors.New("failed when it was recorded")

// nothingUSD is the cost of a free call: the step engine would price the tokens of an answer whose cost is 0.
const nothingUSD = 1e-18

// recordedFault rejects the answers that checks rejected when they were recorded.
func (r *rehearsal) recordedFault(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.truth[a.Model]; o.Rejected {
		return "rejected when it was recorded"
	}
	return ""
}

// call returns the world's answer of a model, or a failure: each attempt tries every deployment once, and as many
// tries fail as were recorded.
func (r *rehearsal) call(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.policy.Models[c.Index]
	who := Model{Name: m.Name, Provider: m.Provider, Served: m.Served, Price: m.Price.SDK(), Quality: m.Quality.SDK(), Verified: r.policy.Verifies(c.Query, m.Name), Expected: r.expected}
	if a := r.agreement; a != nil {
		who.Compared, who.Trial, who.Quality.Mean = a, r.trial, a.models[c.Index].Quality.Mean
	}
	o := r.world.Outcome(r.n, who)
	servers := 1 + len(m.Deployments)
	if o.Failures >= c.Attempt*servers {
		return nil, &step.CallError{Err: errRecorded, Retry: true}
	}
	if !o.Known {
		r.f.Unknown++
	}
	r.truth[m.Name] = o
	// Estimators see only recorded lengths, as the fit did. Expected lengths serve to price answers of unknown cost.
	usage := o.Usage
	cost := o.CostUSD
	switch {
	case o.Free:
		cost = nothingUSD
	case cost > 0:
		dearer := r.dearerUSD(c.Query, who)
		cost, usage = max(nothingUSD, cost+dearer), readAnew(usage, &c.Model.Price, dearer)
	case cost == 0: // priced by tokens
		prompt := usage.InputTokens + usage.CachedInputTokens + usage.CacheWriteTokens
		if o.Judged && (prompt == 0 || usage.OutputTokens == 0) {
			r.f.Assumed++
		}
		if prompt == 0 {
			usage.InputTokens = c.Query.InputTokens
		}
		if cost = r.profileUSD(ctx, c, &o); cost == 0 {
			usage.OutputTokens = cmp.Or(usage.OutputTokens, m.ExpectedOutputTokens)
		}
	}
	answer := &sdk.Answer{Model: m.Name, Text: o.Text, CostUSD: cost, Signals: r.freeSignals(m.Name, o.Signals), Usage: usage}
	for _, tool := range o.Tools {
		answer.ToolCalls = append(answer.ToolCalls, sdk.ToolCall{Name: tool, Arguments: strconv.Quote(o.Text)})
	}
	return answer, nil
}

// dearerUSD returns how much more than recorded a call costs because of what the model finds in its prompt cache.
func (r *rehearsal) dearerUSD(q *sdk.Query, m Model) float64 {
	w, ok := r.world.(cachedPrompts)
	if !ok || q.Run == "" {
		return 0
	}
	key := [4]string{q.Tenant, q.Run, m.Name}
	if len(q.Tools) > 0 { // they come before the conversation
		key[3] = "with tools"
	}
	tokens := float64(q.InputTokens)
	usd := w.DearerUSD(r.n, m, outcome.LongestPrompt(r.read[key], tokens))
	r.read[key] = append(r.read[key], tokens)
	return usd
}

// readAnew moves as many tokens of a prompt out of the cache, or into it, as make a call dearer by that much.
func readAnew(u sdk.Usage, p *sdk.Price, dearerUSD float64) sdk.Usage {
	const few = 1000 // no long context, which costs more
	perToken := p.CachedUSD(sdk.Usage{CachedInputTokens: few}) / few
	if !(perToken > 0) {
		return u
	}
	anew := min(max(int(dearerUSD/perToken), -u.InputTokens-u.CacheWriteTokens), u.CachedInputTokens)
	u.CachedInputTokens -= anew
	if written := u.CacheWriteTokens + anew; p.CacheWrite > p.Input {
		u.CacheWriteTokens, u.InputTokens = max(written, 0), u.InputTokens+min(written, 0)
	} else {
		u.InputTokens += anew
	}
	return u
}

// profileUSD returns what the profile expects of a call without a recorded outcome, or 0 if unknown.
func (r *rehearsal) profileUSD(ctx context.Context, c *step.Call, o *Outcome) float64 {
	if r.assembly.Step.Cost == nil || o.Judged || o.Usage != (sdk.Usage{}) {
		return 0
	}
	res, err := r.assembly.Step.Cost.EstimateCost(ctx, &sdk.CostRequest{Query: c.Query, Models: []sdk.Model{*c.Model}, Attempts: c.Earlier})
	if err != nil || !(res.Estimates[0].Mean > 0) {
		return 0
	}
	return res.Estimates[0].Mean
}

// freeSignals returns the signals of a model's answer except those that verifiers return, and keeps all in
// r.verifierSignals.
func (r *rehearsal) freeSignals(model string, signals map[string]float64) map[string]float64 {
	left := maps.Clone(signals)
	for i := range r.policy.Verifiers {
		if v := &r.policy.Verifiers[i]; !v.Judges() {
			r.verifierSignals[model] = signals
			delete(left, v.Name)
			delete(left, v.Name+sdk.SignalCostUSD)
		}
	}
	return left
}
