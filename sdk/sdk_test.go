package sdk_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

func TestAVerdictTellsTheQuality(t *testing.T) {
	for name, test := range map[string]struct {
		verdict *sdk.Verdict
		quality float64
		known   bool
	}{
		"none":            {nil, 0, false},
		"inconclusive":    {&sdk.Verdict{Score: 1, Confidence: 1}, 0, false},
		"passed":          {&sdk.Verdict{Outcome: sdk.Passed}, 1, true},
		"failed":          {&sdk.Verdict{Outcome: sdk.Failed}, 0, true},
		"probably passed": {&sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.75}, 0.75, true},
		"probably failed": {&sdk.Verdict{Outcome: sdk.Failed, Confidence: 0.75}, 0.25, true},
	} {
		if quality, known := test.verdict.Quality(); quality != test.quality || known != test.known {
			t.Errorf("%s: %v %v, want %v %v", name, quality, known, test.quality, test.known)
		}
	}
}

func TestOutcomesAreWrittenByName(t *testing.T) {
	for _, o := range []sdk.Outcome{sdk.Inconclusive, sdk.Passed, sdk.Failed} {
		text, err := json.Marshal(sdk.Verdict{Outcome: o})
		if err != nil {
			t.Fatal(err)
		}
		var back sdk.Verdict
		if err := json.Unmarshal(text, &back); err != nil || back.Outcome != o {
			t.Errorf("%s came back as %v (%v)", text, back.Outcome, err)
		}
	}
	var o sdk.Outcome
	if err := o.UnmarshalText([]byte("maybe")); err == nil {
		t.Error("an unknown outcome was accepted")
	}
}

func TestCachedAndReasoningTokensHaveTheirOwnPrice(t *testing.T) {
	price := sdk.Price{Input: 1, CachedInput: 0.5, CacheWrite: 2, Output: 10, Reasoning: 20}
	usage := sdk.Usage{InputTokens: 1e6, CachedInputTokens: 2e6, CacheWriteTokens: 1e6, OutputTokens: 1e5, ReasoningTokens: 1e5}
	if got := price.CostUSD(usage); got != 1+1+2+1+2 {
		t.Errorf("costs %v", got)
	}
	if sum := usage.Add(sdk.Usage{OutputTokens: 1, Estimated: true}); sum.OutputTokens != 1e5+1 || !sum.Estimated {
		t.Errorf("sum %+v", sum)
	}
}

func TestConvertUSD(t *testing.T) {
	u := sdk.Usage{InputTokens: 1000, CachedInputTokens: 1000, OutputTokens: 100}
	was, now, free := sdk.Price{Input: 30, CachedInput: 3, Output: 60}, sdk.Price{Input: 10, CachedInput: 1, Output: 20}, sdk.Price{}
	for name, tt := range map[string]struct {
		at        sdk.Price
		usd, want float64
		usage     sdk.Usage
		was       *sdk.Price
	}{
		"a third":              {now, was.CostUSD(u), now.CostUSD(u), u, &was},
		"a faster tier":        {now, 2 * was.CostUSD(u), 2 * now.CostUSD(u), u, &was},
		"the same price":       {was, 0.123456789012345, 0.123456789012345, u, &was},
		"no recorded price":    {now, 0.5, 0.5, u, nil},
		"no tokens":            {now, 0.5, 0.5, sdk.Usage{}, &was},
		"free before":          {now, 0, now.CostUSD(u), u, &free},
		"free now":             {free, was.CostUSD(u), 0, u, &was},
		"billed by the server": {now, 0.5, 0.5, u, &free},
	} {
		if got := tt.at.ConvertUSD(tt.usd, tt.usage, tt.was); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestTheLastUserTextLeavesImagesOut(t *testing.T) {
	q := sdk.Query{Messages: []sdk.Message{
		{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart("first")}},
		{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart("one"), {Kind: sdk.PartImageURL, URL: "http://x"}, sdk.TextPart("two")}},
		{Role: sdk.RoleAssistant, Parts: []sdk.Part{sdk.TextPart("answer")}},
	}}
	if got := q.LastUserText(); got != "one\ntwo" {
		t.Errorf("got %q", got)
	}
	if got := (&sdk.Query{}).LastUserText(); got != "" {
		t.Errorf("an empty conversation says %q", got)
	}
}

func ExampleAbstain() {
	e := sdk.Abstain()
	fmt.Println(e.Abstains(), sdk.Estimate{Mean: 0.5}.Abstains())
	// Output: true false
}

func ExamplePrice_CostUSD() {
	price := sdk.Price{Input: 0.15, Output: 0.60}
	fmt.Printf("%.6f USD\n", price.CostUSD(sdk.Usage{InputTokens: 1200, OutputTokens: 300}))
	// Output: 0.000360 USD
}

func TestFurtherAnswersAreKnownByTheirNames(t *testing.T) {
	names := []string{"a", "a#2", "b#2", "c#1", "c", "c#x", "c#3", "a#2#2"}
	if got, want := fmt.Sprint(sdk.Samples(names)), "[0 0 2 3 4 5 4 0]"; got != want {
		t.Errorf("%v, want %s", got, want)
	}
}
