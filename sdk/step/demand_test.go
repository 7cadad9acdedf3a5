package step_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// An upstream that always bills the longest answer, and reports any usage, never exceeds a
// cap.
func TestNoBillPassesACap(t *testing.T) {
	const usdCap = 0.25
	model := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 100, CachedInput: 0.1, CacheWrite: 1.25}, ContextTokens: 8000, MaxOutputTokens: 1000}
	reports := map[string]sdk.Usage{
		"nothing": {}, "zero output": {InputTokens: 10}, "below zero": {InputTokens: 10, OutputTokens: -1000}, "negative cache": {InputTokens: 10, CachedInputTokens: -5000, OutputTokens: 5},
		"far too much": {InputTokens: 10, OutputTokens: math.MaxInt / 4}, "too much thought": {InputTokens: 10, OutputTokens: 1000, ReasoningTokens: 100_000}, "the bill": {InputTokens: 30, OutputTokens: -2},
	}
	for _, limit := range []int{0, 10, 1_000_000, 2_000_000_000, -5} {
		for _, choices := range []int{0, 3} {
			for what, usage := range reports {
				for level, c := range map[string]step.Config{
					"step": {StepCapUSD: usdCap}, "run": {Ledger: step.NewMemory(step.Caps{RunUSD: usdCap})}, "tenant": {Ledger: step.NewMemory(step.Caps{TenantUSD: usdCap})},
				} {
					name := fmt.Sprintf("limit %d, %d choices, %s reported, cap of the %s", limit, choices, what, level)
					billed, calls := 0.0, 0
					c.Candidates, c.Strategy, c.Retry = []step.Candidate{{Model: model}}, index(t, 1), step.Retry{MaxAttempts: 1}
					e := engine(t, c)
					caller := step.CallerFunc(func(_ context.Context, s *step.Call) (*sdk.Answer, error) {
						if s.MaxOutputTokens <= 0 || s.MaxOutputTokens > model.MaxOutputTokens || limit > 0 && s.MaxOutputTokens > limit {
							t.Errorf("%s: %d tokens are asked for", name, s.MaxOutputTokens)
						}
						calls++
						out := max(choices, 1) * s.MaxOutputTokens
						billed += model.Price.CostUSD(sdk.Usage{InputTokens: 30, OutputTokens: out})
						used := usage
						if what == "the bill" {
							used.OutputTokens = out
						}
						return &sdk.Answer{Text: "ok", Usage: used}, nil
					})
					for range 100 {
						before := billed
						q := query()
						q.MaxOutputTokens = limit
						res, err := e.Run(t.Context(), step.Request{Query: q, Caller: caller, PromptBytes: 120, Choices: choices})
						if level == "step" && billed-before > usdCap {
							t.Fatalf("%s: %v USD in one step", name, billed-before)
						}
						if err != nil {
							if !errors.Is(err, sdk.ErrBudgetExhausted) {
								t.Fatalf("%s: %v", name, err)
							}
							break
						}
						if rec := res.Trace.Calls[0]; (rec.UsageDoubt == "") != (what == "the bill") || (rec.UsageDoubt != "") != rec.Usage.Estimated || rec.CostUSD < billed-before-1e-12 {
							t.Fatalf("%s: %+v of %v USD", name, rec, billed-before)
						}
					}
					if level != "step" && billed > usdCap || calls == 0 && choices == 0 {
						t.Errorf("%s: %v USD in %d calls", name, billed, calls)
					}
				}
			}
		}
	}
}

// largest is a ledger that grants every reservation and records the largest.
type largest struct{ usd float64 }

func (l *largest) Reserve(_ context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	l.usd = max(l.usd, usd)
	return l, nil
}

func (l *largest) Settle(context.Context, float64) error { return nil }

// Reported usage is accepted exactly up to the reserved worst case, to the token: usage at
// the limit is booked as reported, and beyond it the call costs the reservation.
func TestWhatIsBelievedIsReserved(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 2, CachedInput: 2, CacheWrite: 2}, ContextTokens: 100_000, MaxOutputTokens: 10, Capabilities: sdk.Capabilities{Tools: true}}
	tools := query()
	tools.Tools = []sdk.Tool{{Name: "find"}}
	embeddings := query()
	embeddings.Messages = nil
	double := func(_ int, p sdk.Price) sdk.Price {
		p.Input, p.CachedInput, p.CacheWrite = 2*p.Input, 2*p.CachedInput, 2*p.CacheWrite
		return p
	}
	for name, c := range map[string]struct {
		req        step.Request
		tokens     float64 // to the nearest one
		perMillion float64
	}{
		"short":              {step.Request{Query: query(), PromptBytes: 40}, 2013, 2},
		"long":               {step.Request{Query: query(), PromptBytes: 40_000}, 40_000, 2},
		"tools":              {step.Request{Query: tools, PromptBytes: 90}, 3030, 2},
		"embeddings":         {step.Request{Query: embeddings, PromptBytes: 90}, 90, 2},
		"three images":       {step.Request{Query: query(), PromptBytes: 40, Images: 3}, 32_013, 2},
		"many images":        {step.Request{Query: query(), PromptBytes: 40, Images: 30}, 102_013, 2},
		"a file":             {step.Request{Query: query(), PromptBytes: 40, ContextReads: 1}, 102_013, 2},
		"hosted tools":       {step.Request{Query: tools, PromptBytes: 90, ContextReads: 20}, 2_003_030, 2},
		"at a priority":      {step.Request{Query: query(), PromptBytes: 40, Tariff: double}, 2013, 4},
		"two choices, tools": {step.Request{Query: tools, PromptBytes: 90, Choices: 2}, 3030, 2},
	} {
		for _, extra := range []int{0, 1} {
			for kind, usage := range map[string]func(n int) sdk.Usage{
				"input": func(n int) sdk.Usage { return sdk.Usage{InputTokens: n, OutputTokens: 1} }, "cached": func(n int) sdk.Usage { return sdk.Usage{CachedInputTokens: n, OutputTokens: 1} },
				"written": func(n int) sdk.Usage { return sdk.Usage{InputTokens: 1, CacheWriteTokens: n - 1, OutputTokens: 1} },
			} {
				ledger := &largest{}
				c.req.Caller = step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
					return &sdk.Answer{Text: "ok", Usage: usage(int(ledger.usd*1e6/c.perMillion+1e-6) + extra)}, nil
				})
				res, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: index(t, 1), Ledger: ledger}).Run(t.Context(), c.req)
				if err != nil {
					t.Fatal(name, err)
				}
				rec := res.Trace.Calls[0]
				if math.Abs(ledger.usd*1e6/c.perMillion-c.tokens) > 0.5 || rec.CostUSD > ledger.usd+1e-12 || rec.CostUSD < ledger.usd-1e-6*c.perMillion || (rec.UsageDoubt != "") != (extra > 0) {
					t.Errorf("%s, %s, %d beyond: reserved %v USD (want %v), booked %v, doubt %q", name, kind, extra, ledger.usd, c.tokens*c.perMillion/1e6, rec.CostUSD, rec.UsageDoubt)
				}
			}
		}
	}
}

// Usage that a request can cause is accepted, and nothing is reserved without a cap.
func TestHonestUsageIsBelieved(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10}, ContextTokens: 100_000, MaxOutputTokens: 5000, Capabilities: sdk.Capabilities{Tools: true, Images: true}}
	tools, image, limited := query(), query(), query()
	limited.MaxOutputTokens = 16
	tools.Tools = []sdk.Tool{{Name: "find"}}
	image.Messages[0].Parts = append(image.Messages[0].Parts, sdk.Part{Kind: sdk.PartImageURL, URL: "https://example.com/a.png"})
	for name, c := range map[string]struct {
		req   step.Request
		usage sdk.Usage
		cap   float64
		doubt string
	}{
		"a chat template":           {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 75, OutputTokens: 12}, 0, ""},
		"of a tool":                 {step.Request{Query: tools, PromptBytes: 60}, sdk.Usage{InputTokens: 2900, OutputTokens: 12}, 0, ""},
		"hidden instructions":       {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 2001, OutputTokens: 12}, 0, ""},
		"too much for its prompt":   {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 2014, OutputTokens: 12}, 0, "2014 input tokens"},
		"an image under a cap":      {step.Request{Query: image, PromptBytes: 3040, Images: 1}, sdk.Usage{InputTokens: 12_000, OutputTokens: 12}, 1, ""},
		"one token a byte":          {step.Request{Query: query(), PromptBytes: 9000}, sdk.Usage{InputTokens: 1000, CachedInputTokens: 4000, CacheWriteTokens: 4000, OutputTokens: 12}, 0, ""},
		"more than one a byte":      {step.Request{Query: query(), PromptBytes: 9000}, sdk.Usage{InputTokens: 9001, OutputTokens: 12}, 0, "9001 input tokens"},
		"a large image":             {step.Request{Query: image, PromptBytes: 3040, Images: 1}, sdk.Usage{InputTokens: 40_000, OutputTokens: 12}, 0, ""},
		"a search":                  {step.Request{Query: query(), PromptBytes: 40, ContextReads: 20}, sdk.Usage{InputTokens: 300_000, OutputTokens: 12}, 0, ""},
		"no limit, no cap":          {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 90_000}, 0, ""},
		"no limit, cap":             {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 5001}, 1, "5001 output tokens"},
		"a limit, no cap":           {step.Request{Query: limited, PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 34, ReasoningTokens: 64}, 0, ""},
		"beyond the context":        {step.Request{Query: limited, PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 100_001}, 0, "100001 output tokens"},
		"a limit, cap":              {step.Request{Query: limited, PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 34, ReasoningTokens: 64}, 1, "98 output tokens"},
		"with its reasoning":        {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{InputTokens: 10, OutputTokens: 1000, ReasoningTokens: 4000}, 1, ""},
		"three answers":             {step.Request{Query: query(), PromptBytes: 40, Choices: 3}, sdk.Usage{InputTokens: 10, OutputTokens: 15_000}, 1, ""},
		"and a prediction":          {step.Request{Query: query(), PromptBytes: 40, PredictedTokens: 50}, sdk.Usage{InputTokens: 10, OutputTokens: 5050}, 1, ""},
		"many calls, of an agent":   {step.Request{Query: query()}, sdk.Usage{InputTokens: 3_000_000, OutputTokens: 70_000}, 1, ""},
		"nothing of a free prompt":  {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{OutputTokens: 5}, 1, ""},
		"fewer tokens than words":   {step.Request{Query: query(), PromptBytes: 40, Choices: 2}, sdk.Usage{InputTokens: 10, OutputTokens: 3}, 1, "3 output tokens are reported beside an answer of at least 8"},
		"one token, no spaces":      {step.Request{Query: query(), PromptBytes: 40, Choices: 4}, sdk.Usage{InputTokens: 10, OutputTokens: 1}, 1, "1 output tokens are reported beside an answer of at least 26"},
		"nothing at all, of a text": {step.Request{Query: query(), PromptBytes: 40}, sdk.Usage{}, 1, "no usage"},
	} {
		e := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: index(t, 1), StepCapUSD: c.cap})
		c.req.Caller = step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			text := "ok"
			switch c.req.Choices {
			case 2:
				text = strings.Repeat("yes ", 23)
			case 4:
				text = strings.Repeat("好", 107)
			}
			return &sdk.Answer{Text: text, Usage: c.usage}, nil
		})
		res, err := e.Run(t.Context(), c.req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rec, notes := res.Trace.Calls[0], ""
		for _, d := range res.Trace.Decisions {
			notes += d.Note
		}
		switch {
		case !strings.Contains(rec.UsageDoubt, c.doubt) || (rec.UsageDoubt == "") != (c.doubt == ""):
			t.Errorf("%s: doubt %q, want %q", name, rec.UsageDoubt, c.doubt)
		case c.doubt == "" && rec.Usage != c.usage:
			t.Errorf("%s: %+v, want %+v", name, rec.Usage, c.usage)
		case c.doubt != "" && (!rec.Usage.Estimated || !strings.Contains(notes, "estimated: "+rec.UsageDoubt)):
			t.Errorf("%s: %+v, note %q", name, rec, notes)
		}
	}
}

// Under a cap, a call whose upstream understates its usage costs the reservation: if visible
// tokens are not counted, hidden ones may not be either. Its tokens are estimated as for an
// answer without usage, but never below what is reported.
func TestUnderstatedUsage(t *testing.T) {
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, and nobody knows why it does. ", 100) // 1,700 tokens
	chinese := strings.Repeat("人工智能是计算机科学的一个分支,它企图了解智能的实质。", 40)                                                // 700 to 1,000
	model := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10, CachedInput: 1, Reasoning: 10}, ContextTokens: 100_000, MaxOutputTokens: 5000}
	for name, c := range map[string]struct {
		prompt, text   string
		choices, limit int
		reasoning      string
		logProbs       int
		usage          sdk.Usage
		input, output  [2]int // from, to
		isDoubted      bool
	}{
		"honest":            {prose, prose, 1, 0, "", 0, sdk.Usage{InputTokens: 1702, OutputTokens: 1701}, [2]int{1702, 1702}, [2]int{1701, 1701}, false},
		"a tenth of both":   {prose, prose, 1, 0, "", 0, sdk.Usage{InputTokens: 170, OutputTokens: 170}, [2]int{1875, 1875}, [2]int{1875, 1875}, true},
		"cached":            {prose, "ok", 1, 0, "", 0, sdk.Usage{InputTokens: 2, CachedInputTokens: 1700, OutputTokens: 1}, [2]int{2, 2}, [2]int{1, 1}, false},
		"no prompt at all":  {prose, "ok", 1, 0, "", 0, sdk.Usage{OutputTokens: 1}, [2]int{1875, 1875}, [2]int{1, 1}, true},
		"Chinese":           {chinese, chinese, 1, 0, "", 0, sdk.Usage{InputTokens: 700, OutputTokens: 20}, [2]int{700, 700}, [2]int{700, 800}, true},
		"of eight choices":  {"hi", prose, 8, 5000, "", 0, sdk.Usage{InputTokens: 20, OutputTokens: 1701}, [2]int{20, 20}, [2]int{15_000, 15_000}, true},
		"white space":       {"hi" + strings.Repeat(" ", 9000), strings.Repeat("\n", 3000) + "=====", 1, 0, "", 0, sdk.Usage{InputTokens: 120, OutputTokens: 40}, [2]int{120, 120}, [2]int{40, 40}, false},
		"uncounted thought": {"hi", "ok", 1, 0, prose, 0, sdk.Usage{InputTokens: 20, OutputTokens: 1}, [2]int{20, 20}, [2]int{1800, 1900}, true},
		"a long summary":    {"hi", "ok", 1, 0, prose, 0, sdk.Usage{InputTokens: 20, OutputTokens: 1, ReasoningTokens: 64}, [2]int{20, 20}, [2]int{1, 1}, false},
		"log-probabilities": {"hi", strings.Repeat("a", 300), 1, 0, "", 300, sdk.Usage{InputTokens: 20, OutputTokens: 5}, [2]int{20, 20}, [2]int{292, 300}, true},
		"beyond the limit":  {"hi", prose, 1, 50, "", 0, sdk.Usage{InputTokens: 20, OutputTokens: 10}, [2]int{20, 20}, [2]int{50, 50}, true},
		"an API that drops": {"drops" + prose, "ok", 1, 0, "", 0, sdk.Usage{InputTokens: 20, OutputTokens: 1}, [2]int{20, 20}, [2]int{1, 1}, false},
	} {
		q := query()
		q.Messages[0].Parts, q.MaxOutputTokens, q.InputTokens = []sdk.Part{sdk.TextPart(c.prompt)}, c.limit, len(c.prompt)/4
		ledger := &largest{}
		e := engine(t, step.Config{Candidates: []step.Candidate{{Model: model}}, Strategy: index(t, 1), Ledger: ledger})
		res, err := e.Run(t.Context(), step.Request{Query: q, PromptBytes: len(c.prompt), Choices: c.choices, DropsInput: strings.HasPrefix(c.prompt, "drops"),
			Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
				a := &sdk.Answer{Text: c.text, Reasoning: c.reasoning, Usage: c.usage, LogProbs: make([]sdk.TokenLogProb, c.logProbs)}
				for range c.choices - 1 {
					a.Choices = append(a.Choices, c.text)
				}
				return a, nil
			})})
		if err != nil {
			t.Fatal(name, err)
		}
		rec := res.Trace.Calls[0]
		in, out := rec.Usage.InputTokens, rec.Usage.OutputTokens
		if in < c.input[0] || in > c.input[1] || out < c.output[0] || out > c.output[1] || rec.Usage.Estimated != c.isDoubted || (rec.UsageDoubt != "") != c.isDoubted {
			t.Errorf("%s: %+v, doubt %q", name, rec.Usage, rec.UsageDoubt)
		}
		want := model.Price.CostUSD(rec.Usage)
		if c.isDoubted {
			want = ledger.usd
		}
		if math.Abs(rec.CostUSD-want) > 1e-12 {
			t.Errorf("%s: %v USD, want %v", name, rec.CostUSD, want)
		}
	}
}

// An implausible cost from a caller is ignored, and so is impossible usage of a failed call.
func TestBillsOfCallers(t *testing.T) {
	models := candidates()[:1]
	honest := sdk.Usage{InputTokens: 100, OutputTokens: 100}
	for name, c := range map[string]struct {
		answer sdk.Answer
		failed *step.CallError
		tokens int // of output
	}{
		"no number":        {answer: sdk.Answer{Text: "1", Usage: honest, CostUSD: math.NaN()}, tokens: 100},
		"infinite":         {answer: sdk.Answer{Text: "1", Usage: honest, CostUSD: math.Inf(1)}, tokens: 100},
		"owed":             {answer: sdk.Answer{Text: "1", Usage: honest, CostUSD: -5}, tokens: 100},
		"over a million":   {answer: sdk.Answer{Text: "1", Usage: honest, CostUSD: 1_000_001}, tokens: 100},
		"huge and failed":  {failed: &step.CallError{Err: errors.New("cut"), Usage: sdk.Usage{OutputTokens: math.MaxInt}}},
		"owed and failed":  {failed: &step.CallError{Err: errors.New("cut"), CostUSD: -1}},
		"many and failed":  {failed: &step.CallError{Err: errors.New("cut"), Billed: true, Usage: sdk.Usage{ReasoningTokens: -7}}, tokens: 500},
		"fine, and failed": {failed: &step.CallError{Err: errors.New("cut"), Usage: honest}, tokens: 100},
	} {
		e := engine(t, step.Config{Candidates: models, Strategy: index(t, 1), StepCapUSD: 1})
		res, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			if c.failed != nil {
				return nil, c.failed
			}
			return &c.answer, nil
		})})
		if (err != nil) != (c.failed != nil) {
			t.Errorf("%s: %v", name, err)
		}
		got := res.Trace.Usage
		if got.OutputTokens+got.ReasoningTokens != c.tokens || got.InputTokens < 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if want := models[0].Model.Price.CostUSD(got); math.Abs(res.Trace.CostUSD-want) > 1e-12 {
			t.Errorf("%s: %v USD, want %v", name, res.Trace.CostUSD, want)
		}
	}
}

// The longest answer leaves room for the prompt in the model's context.
func TestTheLimitFitsTheContext(t *testing.T) {
	for _, c := range []struct{ context, longest, prompt, asked, want int }{
		{10_000, 6000, 30, 0, 6000}, {10_000, 6000, 30, 100, 100}, {10_000, 6000, 6000, 7000, 6000}, {10_000, 6000, 27_000, 0, 751}, {10_000, 6000, 27_000, 80, 80},
		{10_000, 8000, 6000, 0, 10_000 - 2000 - 256}, {0, 6000, 27_000, 0, 6000}, {6000, 6000, 0, 0, 6000}, {10_000, 0, 30, 100, 100},
	} {
		m := sdk.Model{Name: "m", Price: sdk.Price{Output: 1}, ContextTokens: c.context, MaxOutputTokens: c.longest}
		q := query()
		q.MaxOutputTokens = c.asked
		limits := step.Config{StepCapUSD: 1}
		if c.longest == 0 {
			limits.StepCapUSD = 0 // no cap, and the caller's own limit
		}
		limits.Candidates, limits.Strategy = []step.Candidate{{Model: m}}, index(t, 1)
		var got int
		_, err := engine(t, limits).Run(t.Context(), step.Request{
			Query: q, PromptBytes: c.prompt, Caller: step.CallerFunc(func(_ context.Context, s *step.Call) (*sdk.Answer, error) {
				got = s.MaxOutputTokens
				return &sdk.Answer{Text: "ok"}, nil
			})})
		if err != nil || got != c.want {
			t.Errorf("%+v: %d (%v)", c, got, err)
		}
	}
}

// A judge without a stated price reserves the highest cost of its verdicts so far.
func TestAJudgeWithoutAPriceStaysUnderTheCap(t *testing.T) {
	const usdCap, verdict = 1.0, 0.3
	judged := 0
	judge := step.Verifier{Name: "judge", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		judged++
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, CostUSD: verdict}, nil
	})}
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Verifiers: []step.Verifier{judge}, Ledger: step.NewMemory(step.Caps{RunUSD: usdCap})})
	q := query()
	q.Run = "r"
	spent := 0.0
	for range 10 {
		res, err := e.Run(t.Context(), step.Request{Query: q, PromptBytes: 40, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{Text: "ok", Usage: sdk.Usage{InputTokens: 10, OutputTokens: 1}}, nil
		})})
		if err != nil && !errors.Is(err, sdk.ErrBudgetExhausted) {
			t.Fatal(err)
		}
		spent += res.Trace.CostUSD
	}
	if judged != 3 || spent > usdCap {
		t.Errorf("%d verdicts, %v USD", judged, spent)
	}
}

// Fees other than for tokens, and the surcharge for long prompts, stay under a cap.
func TestFeesAndLongPromptsAreReserved(t *testing.T) {
	const usdCap = 1.0
	model := sdk.Model{Name: "m", MaxOutputTokens: 1000, Price: sdk.Price{
		Input: 1, Output: 10, RequestUSD: 0.02, HostedCallUSD: 0.05, SearchUSD: 0.01, Long: sdk.LongContext{Tokens: 10_000, InputFactor: 2, OutputFactor: 1.5},
	}}
	for name, c := range map[string]struct {
		prompt, hosted int
		usage          sdk.Usage
		usd            float64 // what the trace says
		isListed       bool    // the answer lists the uses of tools
	}{
		"a fee for each request": {300, 0, sdk.Usage{InputTokens: 100, OutputTokens: 1000}, 0.0001 + 0.01 + 0.02, false},
		"a long prompt":          {20_000, 0, sdk.Usage{InputTokens: 20_000, OutputTokens: 1000}, 2*0.02 + 1.5*0.01 + 0.02, false},
		"a prompt at the bound":  {20_000, 0, sdk.Usage{InputTokens: 10_000, OutputTokens: 1000}, 0.01 + 0.01 + 0.02, false},
		"searches not reported":  {300, 4, sdk.Usage{InputTokens: 100, OutputTokens: 1000}, 0.0001 + 0.01 + 0.02, false},
		"searches offered":       {300, 4, sdk.Usage{InputTokens: 100, OutputTokens: 1000}, 0.0001 + 0.01 + 0.02, true},
		"searches":               {300, 4, sdk.Usage{InputTokens: 100, OutputTokens: 1000, HostedCalls: 4, Searches: 3}, 0.0001 + 0.01 + 0.02 + 0.05 + 3*0.01, true},
		"uses of other tools":    {300, 4, sdk.Usage{InputTokens: 100, OutputTokens: 1000, HostedCalls: 4}, 0.0001 + 0.01 + 0.02 + 4*0.05, false},
	} {
		billed, calls := 0.0, 0
		ledger := step.NewMemory(step.Caps{RunUSD: usdCap})
		e := engine(t, step.Config{Candidates: []step.Candidate{{Model: model}}, Strategy: index(t, 1), Ledger: ledger})
		for range 100 {
			res, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: c.prompt, HostedCalls: c.hosted, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
				billed += model.Price.CostUSD(c.usage)
				if !c.isListed {
					billed += 0.05 * float64(c.hosted-c.usage.HostedCalls)
				}
				calls++
				return &sdk.Answer{Text: "ok", Usage: c.usage, ListsHostedCalls: c.isListed}, nil
			})})
			if err != nil {
				if !errors.Is(err, sdk.ErrBudgetExhausted) {
					t.Fatal(name, err)
				}
				break
			}
			if math.Abs(res.Trace.CostUSD-c.usd) > 1e-12 {
				t.Errorf("%s: %v USD in the trace, want %v", name, res.Trace.CostUSD, c.usd)
			}
		}
		if billed > usdCap || billed < usdCap/2 || calls == 100 {
			t.Errorf("%s: %d calls billed %v USD under a cap of %v", name, calls, billed, usdCap)
		}
	}
}

// If a server reports searches for a request that cannot cause any, its reported tokens are still accepted.
func TestDoubtfulSearchesCostNoTokens(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10}, MaxOutputTokens: 5000}
	e := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: index(t, 1)})
	res, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: "ok", Usage: sdk.Usage{InputTokens: 100, OutputTokens: 15, ReasoningTokens: 5, HostedCalls: 1}}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	call := res.Trace.Calls[0]
	if want := (sdk.Usage{InputTokens: 100, OutputTokens: 15, ReasoningTokens: 5, Estimated: true}); call.Usage != want || !strings.Contains(call.UsageDoubt, "1 uses") {
		t.Errorf("%+v, %q; want %+v", call.Usage, call.UsageDoubt, want)
	}
}

// answered runs one step of one model without a cap and returns the record of its call.
func answered(t *testing.T, m sdk.Model, q *sdk.Query, req step.Request, answer sdk.Answer) sdk.Call {
	t.Helper()
	req.Query = q
	req.Caller = step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return &answer, nil })
	res, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: route(t)}).Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res.Trace.Calls[0]
}

// Without reported usage, tokens are estimated at four bytes each, rounded up: those of the prompt, unless they are
// counted, and of all that the model wrote.
func TestUsageIsEstimatedFromAllThatWasWritten(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10}}
	all := sdk.Answer{
		Text: strings.Repeat("a", 4), Reasoning: strings.Repeat("b", 8), Choices: []string{strings.Repeat("c", 64)},
		ToolCalls: []sdk.ToolCall{{Name: strings.Repeat("d", 16), Arguments: strings.Repeat("e", 32)}},
	}
	longer := all
	longer.Text += "a"
	for _, c := range []struct {
		counted, bytes int
		answer         sdk.Answer
		want           sdk.Usage
	}{
		{100, 4000, all, sdk.Usage{InputTokens: 100, OutputTokens: 31, Estimated: true}},
		{0, 400, longer, sdk.Usage{InputTokens: 100, OutputTokens: 32, Estimated: true}},
		{0, 401, sdk.Answer{Text: "a"}, sdk.Usage{InputTokens: 101, OutputTokens: 1, Estimated: true}},
	} {
		q := query()
		q.InputTokens = c.counted
		if got := answered(t, m, q, step.Request{PromptBytes: c.bytes}, c.answer).Usage; got != c.want {
			t.Errorf("%d tokens counted of %d bytes: %+v, want %+v", c.counted, c.bytes, got, c.want)
		}
	}
}

// A report of exactly the least that an answer can have is accepted, and one token less is not. An empty answer can
// have none.
func TestTheLeastUsageIsAccepted(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10}}
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	q := query()
	q.Messages[0].Parts, q.InputTokens = []sdk.Part{sdk.TextPart(prose)}, len(prose)/4
	report := func(in, out int, text string) string {
		return answered(t, m, q, step.Request{PromptBytes: len(prose)}, sdk.Answer{Text: text, Usage: sdk.Usage{InputTokens: in, OutputTokens: out}}).UsageDoubt
	}
	var in, out int
	if _, err := fmt.Sscanf(report(1, 1000, "ok"), "1 input tokens are reported of a prompt of at least %d", &in); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(report(1000, 1, prose), "1 output tokens are reported beside an answer of at least %d", &out); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		in, out   int
		text      string
		isDoubted bool
	}{
		"the least": {in, out, prose, false}, "less input": {in - 1, out, prose, true}, "less output": {in, out - 1, prose, true},
		"nothing written": {in, 0, "", false}, "nothing counted": {in, 0, "x", true},
	} {
		if doubt := report(c.in, c.out, c.text); (doubt != "") != c.isDoubted {
			t.Errorf("%s: doubt %q", what, doubt)
		}
	}
}

// A discount counts if the usage that it applies to is credible, a surcharge always.
func TestPriceFactors(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 1, Output: 10}}
	honest, usd := sdk.Usage{InputTokens: 100, OutputTokens: 10}, 200e-6
	for _, c := range []struct {
		factor, want float64
		usage        sdk.Usage
	}{
		{0, usd, honest}, {0.5, usd / 2, honest}, {2, 2 * usd, honest}, {0.5, usd, sdk.Usage{}}, {2, 2 * usd, sdk.Usage{}},
	} {
		call := answered(t, m, query(), step.Request{PromptBytes: 400}, sdk.Answer{Text: strings.Repeat("a", 40), PriceFactor: c.factor, Usage: c.usage})
		if !nearly(call.CostUSD, c.want) {
			t.Errorf("%+v at a factor of %v: %v USD, want %v", c.usage, c.factor, call.CostUSD, c.want)
		}
	}
}

// Answers that cost nothing need no limit under a cap. What is reported of them is still checked against the context,
// for each choice. A prompt that costs nothing can be reported as empty.
func TestWhatIsFreeNeedsNoLimit(t *testing.T) {
	for what, c := range map[string]struct {
		price     sdk.Price
		choices   int
		usage     sdk.Usage
		isDoubted bool
	}{
		"the context for each choice":  {sdk.Price{Input: 1}, 2, sdk.Usage{InputTokens: 300, OutputTokens: 2000}, false},
		"beyond the context":           {sdk.Price{Input: 1}, 2, sdk.Usage{InputTokens: 300, OutputTokens: 2001}, true},
		"a free prompt is not counted": {sdk.Price{RequestUSD: 0.25}, 1, sdk.Usage{OutputTokens: 5}, false},
		"a prompt with a price is":     {sdk.Price{Input: 1}, 1, sdk.Usage{OutputTokens: 5}, true},
	} {
		q := query()
		text := strings.Repeat("The quick brown fox. ", 60)
		q.Messages[0].Parts = []sdk.Part{sdk.TextPart(text)}
		m := sdk.Model{Name: "m", Price: c.price, ContextTokens: 1000}
		res, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: route(t), StepCapUSD: 1}).Run(t.Context(), step.Request{
			Query: q, PromptBytes: len(text), Choices: c.choices,
			Caller: step.CallerFunc(func(_ context.Context, call *step.Call) (*sdk.Answer, error) {
				if call.MaxOutputTokens != 0 {
					t.Errorf("%s: a limit of %d", what, call.MaxOutputTokens)
				}
				return &sdk.Answer{Text: "ok", Usage: c.usage}, nil
			})})
		if err != nil {
			t.Fatal(what, err)
		}
		if doubt := res.Trace.Calls[0].UsageDoubt; (doubt != "") != c.isDoubted {
			t.Errorf("%s: doubt %q", what, doubt)
		}
	}
}

// An image costs up to a cent, so models with cheap tokens count more of them for it.
func TestImagesOfCheapModels(t *testing.T) {
	ledger := &largest{}
	m := sdk.Model{Name: "m", Price: sdk.Price{Input: 0.1}, ContextTokens: 200_000, MaxOutputTokens: 10, Capabilities: sdk.Capabilities{Images: true}}
	_, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: route(t), Ledger: ledger}).Run(t.Context(), step.Request{Query: query(), PromptBytes: 30, Images: 1, Caller: says()})
	if want := (100_000 + 2010) * 0.1 / 1e6; err != nil || !nearly(ledger.usd, want) {
		t.Errorf("%v USD are reserved, want %v (%v)", ledger.usd, want, err)
	}
}

// A cap holds for models that charge nothing for the prompt, and impossible prompts are doubted there too.
func TestModelsWithoutAPriceOfInput(t *testing.T) {
	m := sdk.Model{Name: "m", Price: sdk.Price{Output: 8, RequestUSD: 0.25}, ContextTokens: 8000, MaxOutputTokens: 1000, Capabilities: sdk.Capabilities{Images: true}}
	for images, possible := range map[int]int{0: 2010, 1: 2010 + 8000, 2: 2010 + 8000} {
		for _, extra := range []int{0, 1} {
			ledger := &largest{}
			res, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: route(t), Ledger: ledger}).Run(t.Context(), step.Request{
				Query: query(), PromptBytes: 30, Images: images, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
					return &sdk.Answer{Text: "ok", Usage: sdk.Usage{InputTokens: possible + extra, OutputTokens: 1}}, nil
				})})
			if err != nil {
				t.Fatal(err)
			}
			if doubt := res.Trace.Calls[0].UsageDoubt; !nearly(ledger.usd, 0.258) || (doubt != "") != (extra > 0) {
				t.Errorf("%d images, %d tokens more than possible: %v USD are reserved, doubt %q", images, extra, ledger.usd, doubt)
			}
		}
	}
}
