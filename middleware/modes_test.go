package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// traces keeps the traces that a sink receives.
type traces struct {
	mu   sync.Mutex
	list []*sdk.Trace
}

func (t *traces) record(_ context.Context, tr *sdk.Trace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, tr)
}

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		mode   middleware.Mode
		calls  string // of small and large
		answer string
		modes  string // of the traces
	}{
		{"", "1 0", "cheap", ""},
		{middleware.Enforce, "1 0", "cheap", "enforce"},
		{middleware.Off, "0 1", "dear", "off"},
		{middleware.Observe, "0 1", "dear", "observe"},
		{middleware.Shadow, "1 1", "dear", "shadow shadow_alternative"},
	} {
		a, b := says("cheap"), says("dear")
		var seen traces
		m := wrap(t, middleware.Config{
			Models: []middleware.Candidate{small(a), large(b)}, Mode: tt.mode, Baseline: "large",
			Shadow: middleware.ShadowConfig{Sample: 1, CapUSD: 1},
			Step:   step.Config{Traces: seen.record},
		})
		resp, err := m.GenerateContent(t.Context(), human("q"))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(a.calls.Load(), b.calls.Load()); got != tt.calls || resp.Choices[0].Content != tt.answer {
			t.Errorf("%s: calls %s, answer %q", tt.mode, got, resp.Choices[0].Content)
		}
		var modes []string
		for _, tr := range seen.list {
			modes = append(modes, tr.Mode)
			if tt.mode == middleware.Observe && (tr.Decisions[0].Run != "small" || !strings.Contains(tr.Decisions[0].Note, "large was called instead")) {
				t.Errorf("observe: decision %+v", tr.Decisions[0])
			}
		}
		slices.Sort(modes)
		if got := strings.Join(modes, " "); got != tt.modes {
			t.Errorf("%s: traces of modes %q, want %q", tt.mode, got, tt.modes)
		}
	}
}

// The mode off, by which an operator rolls back, keeps what protects the program: caps, retries and the report of
// costs. No estimator, strategy or verifier takes part, and answers are streamed live.
func TestOffKeepsCapsRetriesAndCosts(t *testing.T) {
	dear := says("dear")
	flaky := &fake{say: func(ctx context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		if dear.calls.Add(1) == 1 {
			return nil, &middleware.ProviderError{Provider: "p", Status: 529, Code: llms.ErrCodeProviderUnavailable, Retry: true, Message: "overloaded"}
		}
		return dear.say(ctx, messages, o)
	}}
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(says("cheap")), large(flaky)}, Mode: middleware.Off, Baseline: "large",
		Route: func(*sdk.Query) middleware.Route { panic("routed") },
		Step: step.Config{
			Ledger: step.NewMemory(step.Caps{TenantUSD: 0.3}), Retry: step.Retry{BaseDelay: time.Millisecond},
			Estimators: []step.Estimator{{Name: "own", Estimator: sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
				panic("estimated")
			})}},
			Verifiers: []step.Verifier{{Name: "judge", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { panic("judged") })}},
		},
	})
	ctx, report := middleware.WithReport(t.Context())
	pieces := 0
	resp, err := m.GenerateContent(ctx, human("q"), llms.WithStreamingFunc(func(context.Context, []byte) error { pieces++; return nil }))
	if err != nil || resp.Choices[0].Content != "dear" || pieces != 4 {
		t.Fatalf("%v, %v in %d pieces after a failed call", resp, err, pieces)
	}
	tr := report.Steps()[0]
	if d := tr.Decisions[0]; report.CostUSD() <= 0 || tr.Mode != "off" || d.Run != "large" || d.Note != "" {
		t.Errorf("reported %v USD, mode %s, decision %+v", report.CostUSD(), tr.Mode, d)
	}
	for range 300 {
		if _, err = m.GenerateContent(ctx, human("q")); err != nil {
			break
		}
	}
	if !errors.Is(err, sdk.ErrBudgetExhausted) || report.CostUSD() > 0.3 {
		t.Errorf("spent %v USD under a cap of 0.3: %v", report.CostUSD(), err)
	}
}

// A shadow that calls all models reuses the answer and the verdict that the step itself has paid for.
func TestShadowBuysNoAnswerTwice(t *testing.T) {
	a, b := says("cheap"), says("dear")
	var judged atomic.Int64
	judge := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		judged.Add(1)
		return &sdk.Verdict{Outcome: sdk.Failed, CostUSD: 0.25}, nil
	})
	var seen traces
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(a), large(b)}, Mode: middleware.Shadow, Baseline: "large",
		Shadow: middleware.ShadowConfig{Sample: 1, CapUSD: 10},
		Step:   step.Config{Traces: seen.record, Verifiers: []step.Verifier{{Name: "judge", Verifier: judge, MaxCostUSD: 0.25}}},
	})
	if _, err := m.GenerateContent(t.Context(), human("q")); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(a.calls.Load(), b.calls.Load(), judged.Load()); got != "1 1 2" {
		t.Errorf("calls of small, large and the judge: %s, want one answer of each and a verdict on both", got)
	}
	beside := seen.list[1]
	if beside.Mode != middleware.ShadowAlternative || len(beside.Calls) != 1 || beside.Calls[0].Model != "small" ||
		math.Abs(beside.CostUSD-beside.Calls[0].CostUSD-0.25) > 1e-9 || !strings.Contains(fmt.Sprint(beside.Decisions), "large is that of its own step") {
		t.Errorf("the shadow's trace: %+v", beside)
	}
	if beside.Chosen == "" || beside.Stop != sdk.StopExhausted {
		t.Errorf("the shadow chose %q and stopped with %s", beside.Chosen, beside.Stop)
	}
}

func TestShadowStaysUnderItsCap(t *testing.T) {
	a := says("cheap")
	// One call of small is reserved at 1000 output tokens and 2012 of input, and costs 120 USD per million.
	var shadows []*sdk.Trace
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(a), large(says("dear"))}, Mode: middleware.Shadow,
		Shadow: middleware.ShadowConfig{Sample: 1, CapUSD: 0.005, Concurrency: 1},
		Step: step.Config{Traces: func(_ context.Context, tr *sdk.Trace) {
			if tr.Mode == middleware.ShadowAlternative {
				shadows = append(shadows, tr)
			}
		}},
	})
	for range 50 {
		if _, err := m.GenerateContent(t.Context(), human("q")); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil { // waits for the shadow
			t.Fatal(err)
		}
	}
	n := a.calls.Load()
	if n == 0 || float64(n)*120e-6 > 0.005 {
		t.Errorf("%d shadow calls", n)
	}
	if last := shadows[len(shadows)-1]; len(shadows) != int(n)+1 || !strings.HasSuffix(last.Error, middleware.ShadowCapUsedUp) {
		t.Errorf("%d shadow calls left %d traces, the last of which says %q", n, len(shadows), last.Error)
	}
}

// Steps that are faster than their shadows wait for room, and each step without room for a shadow has a trace that
// says so: there is one trace per step.
func TestShadowsWaitForRoom(t *testing.T) {
	const steps = 70 // one runs, 64 wait
	release := make(chan struct{})
	slow := &fake{say: func(ctx context.Context, _ []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
		<-release
		return text("cheap"), nil
	}}
	var mu sync.Mutex
	done, leftOut := map[string]int{}, 0
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(slow), large(says("dear"))}, Mode: middleware.Shadow,
		Shadow: middleware.ShadowConfig{Sample: 1, CapUSD: 10, Concurrency: 1},
		Step: step.Config{Strategy: inOrder(t), Traces: func(_ context.Context, tr *sdk.Trace) {
			mu.Lock()
			defer mu.Unlock()
			if tr.Mode != middleware.ShadowAlternative {
				return
			}
			done[tr.QueryID]++
			if strings.Contains(tr.Error, "left out: 64 shadows were waiting") {
				leftOut++
			}
		}},
	})
	for i := range steps {
		if _, err := m.GenerateContent(middleware.WithInfo(t.Context(), middleware.Info{QueryID: fmt.Sprint(i)}), human("q")); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := m.Close(); err != nil { // waits for the shadows
		t.Fatal(err)
	}
	if n := int(slow.calls.Load()); len(done) != steps || leftOut+n != steps || n < 64 || leftOut < 5 {
		t.Errorf("of %d steps %d have a trace of their shadow, %d ran, %d were left out", steps, len(done), n, leftOut)
	}
}

func TestCallbacksComeOnceForEachStep(t *testing.T) {
	for name, tt := range map[string]struct {
		last *fake
		want string
	}{"answer": {says("right"), "start end"}, "error": {fails(errors.New("down")), "start end"}, "none": {nil, "start error"}} {
		models := []middleware.Candidate{small(cutOff("draft"))}
		if tt.last == nil {
			models = []middleware.Candidate{small(fails(errors.New("down")))}
		} else {
			models = append(models, large(tt.last))
		}
		var h events
		m := wrap(t, middleware.Config{Models: models, Callbacks: &h})
		_, err := m.GenerateContent(t.Context(), human("q"))
		if got := strings.Join(h.list, " "); got != tt.want || (err != nil) != strings.Contains(tt.want, "error") {
			t.Errorf("%s: events %q, %v", name, got, err)
		}
	}
}

// events is a handler that records every event and then panics.
type events struct {
	callbacks.SimpleHandler
	list []string
}

func (e *events) HandleLLMGenerateContentStart(context.Context, []llms.MessageContent) {
	e.list = append(e.list, "start")
	panic("start")
}

func (e *events) HandleLLMGenerateContentEnd(_ context.Context, resp *llms.ContentResponse) {
	if resp == nil {
		e.list = append(e.list, "nil")
	}
	e.list = append(e.list, "end")
	panic("end")
}

func (e *events) HandleLLMError(context.Context, error) {
	e.list = append(e.list, "error")
	panic("error")
}

func TestBreakerLeavesFailingDeploymentsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("API returned unexpected status code: 503")
		first, spare := fails(down), says("spare")
		c := small(nil)
		c.Deployments = []middleware.Deployment{{Name: "first", LLM: first}, {Name: "spare", LLM: spare}}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{c}, Breaker: middleware.BreakerConfig{Failures: 3, Delay: time.Minute}})
		ask := func() *sdk.Trace {
			ctx, rep := middleware.WithReport(t.Context())
			resp, err := m.GenerateContent(ctx, human("q"))
			if err != nil || resp.Choices[0].Content != "spare" {
				t.Fatalf("%v, %v", resp, err)
			}
			return rep.Steps()[0]
		}
		for range 10 {
			ask()
		}
		if n := first.calls.Load(); n != 3 {
			t.Errorf("the failing deployment was called %d times, its circuit opens at 3", n)
		}
		time.Sleep(time.Minute)
		first.say = says("spare").say
		if tr := ask(); tr.Calls[0].Deployment != "first" || tr.Calls[0].Error != "" {
			t.Errorf("after the delay: %+v", tr.Calls)
		}
	})
}

// A server that asks for a pause is avoided for that time by later steps, if another model or deployment is available,
// and for five minutes at most.
func TestServersAreGivenThePauseTheyAskFor(t *testing.T) {
	limit := func(pause time.Duration) *fake {
		return fails(&middleware.ProviderError{Provider: "p", Status: 429, Code: llms.ErrCodeRateLimit, Retry: true, RetryAfter: pause, Message: "slow down"})
	}
	for what, c := range map[string]struct {
		pause, later      time.Duration
		spare, alone      bool
		first, then, last int64 // calls of the limited server by the first step, two more at once, one more later
	}{
		"another model":       {pause: 20 * time.Second, later: 20 * time.Second, first: 1, then: 1, last: 2},
		"not yet":             {pause: 20 * time.Second, later: 17 * time.Second, first: 1, then: 1, last: 1},
		"for a short time":    {pause: time.Second, first: 2, then: 6, last: 8},
		"for an hour":         {pause: time.Hour, later: 5 * time.Minute, first: 1, then: 1, last: 2},
		"another deployment":  {pause: 20 * time.Second, spare: true, later: 20 * time.Second, first: 1, then: 1, last: 2},
		"nobody else":         {pause: time.Hour, alone: true, first: 1, then: 3, last: 4},
		"no pause asked for":  {first: 2, then: 6, last: 8},
		"deployment, no word": {spare: true, first: 1, then: 3, last: 4},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limited := limit(c.pause)
				models := []middleware.Candidate{small(limited), large(says("right"))}
				if c.spare {
					models[0].LLM, models[0].Deployments = nil, []middleware.Deployment{{Name: "first", LLM: limited}, {Name: "spare", LLM: says("spare")}}
				}
				if c.alone {
					models = models[:1]
				}
				m := wrap(t, middleware.Config{Models: models, Breaker: middleware.BreakerConfig{Failures: -1}, Step: step.Config{Retry: step.Retry{MaxAttempts: 2}}})
				down := c.alone
				ask := func() {
					if _, err := m.GenerateContent(t.Context(), human("q")); (err != nil) != down {
						t.Error(err)
					}
				}
				ask()
				first := limited.calls.Load()
				ask()
				ask()
				then := limited.calls.Load()
				time.Sleep(c.later)
				ask()
				if last := limited.calls.Load(); first != c.first || then != c.then || last != c.last {
					t.Errorf("asked %d, %d, %d times, want %d, %d, %d", first, then, last, c.first, c.then, c.last)
				}
				// An answer shows that the server is available again, whatever it reported before.
				limited.say, down = says("here").say, false
				time.Sleep(c.pause)
				ask()
				limited.say, down = limit(c.pause).say, c.alone
				was := limited.calls.Load()
				if ask(); limited.calls.Load() == was {
					t.Error("not asked after an answer")
				}
			})
		})
	}
}

func TestModelsWithOpenCircuitsLeaveTheStep(t *testing.T) {
	down := fails(errors.New("API returned unexpected status code: 503"))
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(down), large(says("right"))}, Breaker: middleware.BreakerConfig{Failures: 1}, Step: step.Config{Retry: step.Retry{MaxAttempts: 2, BaseDelay: time.Nanosecond}}})
	for i := range 3 {
		ctx, rep := middleware.WithReport(t.Context())
		resp, err := m.GenerateContent(ctx, human("q"))
		if err != nil {
			t.Fatal(err)
		}
		// The first failure opens the circuit, which stops the second attempt: the trace has that attempt, but no call was sent.
		if s := rep.Steps()[0]; i == 0 && (len(s.Calls) != 3 || middleware.IsSent(&s.Calls[1]) || middleware.CallsSent(s) != 2 || middleware.TotalsOf(resp.Choices[0]).Calls != 2) {
			t.Errorf("%d of %d calls were sent: %+v", middleware.CallsSent(s), len(s.Calls), s.Calls)
		}
		if out := rep.Steps()[0].Infeasible; i > 0 && (len(out) != 1 || !strings.Contains(out[0].Reason, "circuit open") || len(rep.Steps()[0].Calls) != 1) {
			t.Errorf("step %d: %+v", i, rep.Steps()[0])
		}
	}
	if down.calls.Load() != 1 {
		t.Errorf("called %d times", down.calls.Load())
	}
}

// An outage is reported as an outage from the first call to the last, even once all circuits are open, and never as a
// fault of the request.
func TestOutageStaysAnOutage(t *testing.T) {
	down := func() *fake { return fails(errors.New("API returned unexpected status code: 503")) }
	m := wrap(t, middleware.Config{
		Models:  []middleware.Candidate{small(down()), large(down())},
		Breaker: middleware.BreakerConfig{Failures: 2, Delay: time.Hour},
	})
	for call := range 6 {
		_, err := m.GenerateContent(t.Context(), human("q"))
		failed, ok := errors.AsType[*llms.Error](err)
		if !ok || failed.Code != llms.ErrCodeProviderUnavailable {
			t.Fatalf("call %d: %v", call, err)
		}
		if wait, ok := failed.Details[middleware.DetailRetryAfter].(time.Duration); call > 2 && (!ok || wait < time.Minute || wait > time.Hour) {
			t.Errorf("call %d: retry after %v", call, failed.Details)
		}
	}
	// A faulty request remains a faulty request.
	one := large(says("fine"))
	one.Model.Capabilities.Tools = false
	m = wrap(t, middleware.Config{Models: []middleware.Candidate{one}})
	_, err := m.GenerateContent(t.Context(), human("q"), llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "a"}}}))
	if failed, ok := errors.AsType[*llms.Error](err); !ok || failed.Code != llms.ErrCodeInvalidRequest {
		t.Errorf("no model with tools: %v", err)
	}
	// Agents compact a conversation that is too long for all models, or for the one that they name.
	other := small(says("fine"))
	other.Model.ContextTokens, other.Model.Capabilities.Tools = 100, true
	m = wrap(t, middleware.Config{Models: []middleware.Candidate{one, other}})
	_, err = m.GenerateContent(t.Context(), human(strings.Repeat("a word ", 1000)), llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "a"}}}))
	if failed, ok := errors.AsType[*llms.Error](err); !ok || failed.Code != llms.ErrCodeTokenLimit {
		t.Errorf("a prompt that is too long: %v", err)
	}
}

// An answer that ends at the caller's own limit is not a fault, and no other model is called.
func TestCallersOwnLimitIsNoFault(t *testing.T) {
	for _, tt := range []struct {
		limit, used int
		calls       string
	}{{1, 1, "small"}, {0, 1000, "small large"}, {4000, 1000, "small large"}} {
		first, second := cutOff("It"), says("fine")
		cut := first.say
		first.say = func(ctx context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
			resp, err := cut(ctx, messages, o)
			resp.Choices[0].GenerationInfo = map[string]any{"PromptTokens": 10, "CompletionTokens": tt.used}
			return resp, err
		}
		ctx, rep := middleware.WithReport(t.Context())
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(first), large(second)}})
		if _, err := m.GenerateContent(ctx, human("q"), llms.WithMaxTokens(tt.limit)); err != nil {
			t.Fatal(err)
		}
		var asked []string
		for _, c := range rep.Steps()[0].Calls {
			asked = append(asked, c.Model)
		}
		if got := strings.Join(asked, " "); got != tt.calls {
			t.Errorf("max_tokens %d, %d used: asked %q, want %q", tt.limit, tt.used, got, tt.calls)
		}
	}
}

func TestLongCachedConversationIsNotMovedForACent(t *testing.T) {
	route, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	// 'cheaper' has the lower price, 'cached' rereads a conversation at a tenth of its price.
	cached, cheaper := says("cached"), says("cheaper")
	long := func(*fake) *llms.ContentResponse {
		resp := text("cached")
		resp.Choices[0].GenerationInfo = map[string]any{"PromptTokens": 100_000, "CompletionTokens": 10}
		return resp
	}
	cached.say = func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		return long(cached), nil
	}
	models := func() []middleware.Candidate {
		a, b := small(cached), small(cheaper)
		a.Model.Name, a.Model.Price = "cached", sdk.Price{Input: 3, CachedInput: 0.3, Output: 2}
		b.Model.Name, b.Model.Price = "cheaper", sdk.Price{Input: 2.5, Output: 2}
		return []middleware.Candidate{a, b}
	}
	conversation := human(strings.Repeat("word ", 80_000)) // 100,000 tokens
	for name, tt := range map[string]struct {
		session middleware.SessionConfig
		id      string
		want    string
	}{
		"in the session":   {middleware.SessionConfig{}, "s", "cached"},
		"no session":       {middleware.SessionConfig{}, "", "cheaper"},
		"sessions off":     {middleware.SessionConfig{Off: true}, "s", "cheaper"},
		"cache ignored":    {middleware.SessionConfig{IgnoreCache: true}, "s", "cheaper"},
		"price of a move":  {middleware.SessionConfig{IgnoreCache: true, SwitchCostUSD: 0.2}, "s", "cached"},
		"move is cheapest": {middleware.SessionConfig{IgnoreCache: true, SwitchCostUSD: 0.01}, "s", "cheaper"},
	} {
		m := wrap(t, middleware.Config{Models: models(), Session: tt.session, Step: step.Config{Strategy: route}})
		ctx := middleware.WithInfo(t.Context(), middleware.Info{Session: tt.id})
		if _, err := m.GenerateContent(ctx, conversation, llms.WithModel("cached")); err != nil {
			t.Fatal(err)
		}
		resp, err := m.GenerateContent(ctx, conversation)
		if err != nil || resp.Choices[0].Content != tt.want {
			t.Errorf("%s: %v, %v, want %s", name, resp, err, tt.want)
		}
	}
}

// A Model that replaces another keeps the models of its conversations, unless these models have
// changed.
func TestSessionsOutliveTheirModel(t *testing.T) {
	route, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	candidates := func(served string) []middleware.Candidate {
		a, b := small(says("first")), small(says("second"))
		a.Model.Name, a.Model.Served, a.Model.Price = "first", served, sdk.Price{Input: 2, Output: 2}
		b.Model.Name, b.Model.Price = "second", sdk.Price{Input: 1, Output: 1}
		return []middleware.Candidate{a, b}
	}
	session := middleware.SessionConfig{SwitchCostUSD: 1, IgnoreCache: true}
	old := wrap(t, middleware.Config{Models: candidates("v1"), Session: session, Step: step.Config{Strategy: route}})
	ctx := middleware.WithInfo(t.Context(), middleware.Info{Session: "s"})
	if _, err := old.GenerateContent(ctx, human("q"), llms.WithModel("first")); err != nil {
		t.Fatal(err)
	}
	for served, want := range map[string]string{"v1": "first", "v2": "second"} {
		reordered := candidates(served)
		slices.Reverse(reordered)
		next := wrap(t, middleware.Config{Models: reordered, Session: session, Replaces: old, Step: step.Config{Strategy: route}})
		resp, err := next.GenerateContent(ctx, human("q"))
		if err != nil || resp.Choices[0].Content != want {
			t.Errorf("served %s: %v, %v, want %s", served, resp, err, want)
		}
		if _, err := old.GenerateContent(ctx, human("q"), llms.WithModel("first")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRouteGivesAQueryItsOwnPlan(t *testing.T) {
	route, err := cascade.New(cascade.NameRoute, cascade.Params{})
	if err != nil {
		t.Fatal(err)
	}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("cheap")), large(says("dear"))},
		Route: func(q *sdk.Query) middleware.Route {
			switch q.Group {
			case "legal":
				return middleware.Route{Strategy: route}
			case "chat":
				return middleware.Route{Models: []bool{false, true}}
			}
			return middleware.Route{}
		}})
	for group, want := range map[string]string{"legal": "large route", "chat": "large threshold", "": "small threshold"} {
		ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Group: group}))
		if _, err := m.GenerateContent(ctx, human("q")); err != nil {
			t.Fatal(err)
		}
		if tr := rep.Steps()[0]; tr.Chosen+" "+tr.Strategy != want {
			t.Errorf("group %q: %s by %s, want %s", group, tr.Chosen, tr.Strategy, want)
		}
	}
}

// A client's error counts as a lost connection if it has the word EOF, not only its letters.
func TestALostConnectionMakesAModelUnavailable(t *testing.T) {
	for text, want := range map[string]llms.ErrorCode{
		"read: EOF": llms.ErrCodeProviderUnavailable, "unexpected EOF": llms.ErrCodeProviderUnavailable, "marshalling: typeof is unsupported": llms.ErrCodeUnknown,
	} {
		lost := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
			return nil, errors.New(text)
		}}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(lost)}})
		_, err := m.GenerateContent(t.Context(), human("q"))
		if typed, ok := errors.AsType[*llms.Error](err); !ok || typed.Code != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCapsHoldAgainstCallsThatNeverComeBack: a provider bills calls that it has begun, and a client that gave up
// never learns the amount.
func TestCapsHoldAgainstCallsThatNeverComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		billed bool
	}{
		"timeout":           {context.DeadlineExceeded, true},
		"connection cut":    {fmt.Errorf("reading the answer: %w", io.ErrUnexpectedEOF), true},
		"refused":           {errors.New("API returned unexpected status code: 400: no"), false},
		"nobody is there":   {errors.New("dial tcp 127.0.0.1:1: connect: connection refused"), false},
		"overloaded":        {errors.New("API returned unexpected status code: 529: overloaded"), false},
		"unknown":           {errors.New("no key is set"), false},
		"a broken answer":   {fmt.Errorf("reading the answer: %w", json.Unmarshal([]byte("<html>"), &struct{}{})), true},
		"panic of a client": {&step.PanicError{Value: "index out of range"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := step.NewMemory(step.Caps{RunUSD: 0.006})
			lost := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
				return nil, c.err
			}}
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(lost)}, Step: step.Config{Ledger: ledger}})
			ctx, rep := middleware.WithReport(middleware.WithInfo(t.Context(), middleware.Info{Run: "r"}))
			for range 5 {
				if _, err := m.GenerateContent(ctx, human("q")); err == nil {
					t.Fatal("no error")
				}
			}
			spent, _ := ledger.SpentUSD("r", "")
			switch {
			case !c.billed && (spent != 0 || rep.Usage() != (sdk.Usage{})):
				t.Errorf("spent %v on %+v", spent, rep.Usage())
			case c.billed && (spent == 0 || spent > 0.006 || !rep.Usage().Estimated || rep.CostUSD() == 0 || rep.CostUSD() > spent):
				t.Errorf("spent %v on %+v, reported %v", spent, rep.Usage(), rep.CostUSD())
			}
			_, err := m.GenerateContent(ctx, human("q"))
			if capped := errors.Is(err, sdk.ErrBudgetExhausted); capped != c.billed {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCallTimeoutIsAFailedCallNotTheEndOfTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &fake{say: func(ctx context.Context, _ []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
			<-ctx.Done()
			return nil, errors.New("request timeout: exceeded")
		}}
		deaf := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
			time.Sleep(time.Hour)
			return text("late"), nil
		}}
		for provider, llm := range map[string]*fake{"openai": hangs, "mistral": deaf} {
			slow := as(small(llm), provider)
			slow.Timeout = time.Second
			began := time.Now()
			m := wrap(t, middleware.Config{Models: []middleware.Candidate{slow, large(says("right"))}})
			resp, err := m.GenerateContent(t.Context(), human("q"))
			if err != nil || resp.Choices[0].Content != "right" || time.Since(began) != time.Second {
				t.Errorf("%s: %v, %v after %v", provider, resp, err, time.Since(began))
			}
		}
		time.Sleep(2 * time.Hour) // the deaf call ends by itself
	})
}

// A server that reports a rate limit is available: its circuit stays closed, and a circuit that was opened by an
// outage closes.
func TestARateLimitIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := errors.New("API returned unexpected status code: 429: slow down")
		f := says("right")
		say := f.say
		f.say = func(ctx context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
			if answer != nil {
				return nil, answer
			}
			return say(ctx, messages, o)
		}
		m := wrap(t, middleware.Config{
			Models: []middleware.Candidate{small(f)}, Step: step.Config{Retry: step.Retry{MaxAttempts: 1}},
			Breaker: middleware.BreakerConfig{Failures: 2, Delay: time.Minute},
		})
		ask := func() llms.ErrorCode {
			_, err := m.GenerateContent(t.Context(), human("q"))
			if failed, ok := errors.AsType[*llms.Error](err); ok {
				return failed.Code
			}
			return ""
		}
		for call := range 9 {
			if code := ask(); code != llms.ErrCodeRateLimit || len(m.OpenCircuits()) > 0 {
				t.Fatalf("call %d: %q, open %v", call, code, m.OpenCircuits())
			}
		}
		limit := answer
		answer = errors.New("API returned unexpected status code: 500: broken")
		ask()
		ask()
		if len(m.OpenCircuits()) != 1 {
			t.Fatal("an outage opens no circuit")
		}
		time.Sleep(time.Minute)
		answer = limit
		if code := ask(); code != llms.ErrCodeRateLimit {
			t.Errorf("the probe: %q", code)
		}
		answer = nil
		if code := ask(); code != "" {
			t.Errorf("after a server that has come back: %q", code)
		}
	})
}
