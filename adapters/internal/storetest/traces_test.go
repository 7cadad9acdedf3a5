package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// entriesOf returns entries for traces, with the keys by position.
func entriesOf(traces []*sdk.Trace, keys ...string) []store.Entry {
	entries := make([]store.Entry, len(traces))
	for i, t := range traces {
		entries[i].Trace = t
		if i < len(keys) {
			entries[i].Key = keys[i]
		}
	}
	return entries
}

// trace returns the i-th trace of a table with known counts.
func trace(i int) *sdk.Trace {
	t := &sdk.Trace{
		ID: fmt.Sprintf("%032x", i), Start: start.Add(time.Duration(i) * time.Hour), Run: fmt.Sprint("run", i%3), Tenant: []string{"acme", "blue"}[i%2],
		Session: fmt.Sprint("s", i%5), QueryID: fmt.Sprint("q", i), Policy: "p.hcl@1", Mode: "enforce", Strategy: "index", Stop: sdk.StopNotWorth,
		Chosen: "small", Prompt: "What is 100% of " + strconv.Itoa(i) + "?", CostUSD: 0.25, Duration: time.Second, Overhead: time.Millisecond,
		Usage: sdk.Usage{InputTokens: 10, OutputTokens: 2},
		Calls: []sdk.Call{{Model: "small", CostUSD: 0.05, Usage: sdk.Usage{InputTokens: 4, OutputTokens: 1}, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}},
	}
	switch i % 4 {
	case 1:
		t.Calls[0].Verdict = &sdk.Verdict{Outcome: sdk.Failed}
		t.Calls = append(t.Calls, sdk.Call{Model: "large", CostUSD: 0.2, Usage: sdk.Usage{InputTokens: 6, OutputTokens: 1}, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
		t.Chosen = "large"
	case 3:
		t.Calls[0].Error, t.Calls[0].Verdict, t.Chosen, t.Error, t.Stop = "boom", nil, "", "model small: boom", sdk.StopError
	}
	return t
}

func ids(steps []store.Step) (list []string) {
	for _, s := range steps {
		n, _ := strconv.ParseInt(s.ID, 16, 64)
		list = append(list, strconv.FormatInt(n, 10))
	}
	return list
}

func traces(t *testing.T, e engine) {
	s := e.Open(t)
	var batch []*sdk.Trace
	var keys []string
	for i := range 12 {
		batch, keys = append(batch, trace(i)), append(keys, fmt.Sprint("key", i%2))
	}
	must(t, s.Record(t.Context(), entriesOf(batch, keys...)))
	s.Close()

	s = e.Open(t)
	got, err := s.Trace(t.Context(), fmt.Sprintf("%032x", 5))
	if must(t, err); got.Calls[1].Verdict.Outcome != sdk.Passed || !got.Start.Equal(trace(5).Start) {
		t.Errorf("got %+v", got)
	}
	whole, err := s.Whole(t.Context(), []string{fmt.Sprintf("%032x", 7), "fff", got.ID})
	if err != nil || len(whole) != 2 {
		t.Fatalf("%d traces, %v", len(whole), err)
	}
	slices.SortFunc(whole, func(a, b *sdk.Trace) int { return strings.Compare(a.ID, b.ID) })
	if diff := cmp.Diff(got, whole[0]); diff != "" {
		t.Errorf("read with others it is another: %s", diff)
	}
	if none, err := s.Whole(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("no ids: %v, %v", none, err)
	}
	if _, err := s.Trace(t.Context(), "fff"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown trace gives %v", err)
	}
	if _, err := s.Trace(t.Context(), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no id: %v", err)
	}
	if _, err := s.Trace(t.Context(), "000"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("the beginning of several gives %v", err)
	}
	for name, c := range map[string]struct {
		f    store.Filter
		want []string
	}{
		"run and time": {store.Filter{Run: "run0", Until: start.Add(9 * time.Hour)}, []string{"6", "3", "0"}},
		"tenant":       {store.Filter{Tenant: "blue", Limit: 2}, []string{"11", "9"}},
		"key":          {store.Filter{Key: "key1", Since: start.Add(8 * time.Hour)}, []string{"11", "9"}},
		"failed":       {store.Filter{Failed: true}, []string{"11", "7", "3"}},
		"escalated":    {store.Filter{Escalated: true, Chosen: "large"}, []string{"9", "5", "1"}},
		"asked":        {store.Filter{Model: "large"}, []string{"9", "5", "1"}},
		"outcome":      {store.Filter{Outcome: "passed", Session: "s0"}, []string{"10", "5", "0"}},
		"text":         {store.Filter{Text: "100% OF 1"}, []string{"11", "10", "1"}},
		"error":        {store.Filter{Text: "boom", Query: "q7"}, []string{"7"}},
		"stop":         {store.Filter{Stop: sdk.StopError, Policy: "p.hcl@1", Mode: "enforce", Limit: 1}, []string{"11"}},
		"nothing":      {store.Filter{Tenant: "nobody"}, nil},
	} {
		found, err := s.Steps(t.Context(), c.f)
		must(t, err)
		if diff := cmp.Diff(c.want, ids(found)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	found, err := s.Steps(t.Context(), store.Filter{Query: "q5"})
	must(t, err)
	want := []store.Step{{
		Seq: found[0].Seq, ID: trace(5).ID, Start: trace(5).Start, Policy: "p.hcl@1", Mode: "enforce", Strategy: "index", Tenant: "blue", Key: "key1", Run: "run2",
		Session: "s0", Query: "q5", Asked: []string{"small", "large"}, Chosen: "large", Stop: sdk.StopNotWorth, Outcome: "passed", Prompt: "What is 100% of 5?",
		Calls: 2, InputTokens: 10, OutputTokens: 2, CostUSD: 0.25, Duration: time.Second, Overhead: time.Millisecond,
	}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if n, err := store.PruneAll(t.Context(), s, store.Retention{Traces: time.Since(start.Add(119 * time.Minute))}); n.Traces != 2 || err != nil {
		t.Errorf("pruned %+v: %v", n, err)
	}
	if found, err := s.Steps(t.Context(), store.Filter{}); len(found) != 10 || err != nil {
		t.Errorf("%d are left: %v", len(found), err)
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	if must(t, err); len(total) != 1 || total[0].Steps != 12 {
		t.Errorf("sums do not stay: %+v", total)
	}
}

func countsOnce(t *testing.T, e engine) {
	s := e.Open(t)
	for range 3 {
		must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{trace(1), trace(2), trace(1)})))
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	if must(t, err); len(total) != 1 || total[0].Steps != 2 || math.Abs(total[0].CostUSD-0.5) > 1e-12 {
		t.Errorf("got %+v", total)
	}
}

func sums(t *testing.T, e engine) {
	s := e.Open(t)
	for i := range 48 {
		must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{trace(i)}, fmt.Sprint("key", i%2))))
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	must(t, err)
	want := store.Sum{
		Steps: 48, Failed: 12, Escalated: 12, Calls: 60, Passed: 36, InputTokens: 480, OutputTokens: 96, CostUSD: 12,
		Duration: 48 * time.Second, Overhead: 48 * time.Millisecond,
	}
	if diff := cmp.Diff([]store.Sum{want}, total); diff != "" {
		t.Error(diff)
	}
	byModel, err := s.Sums(t.Context(), []store.Dimension{store.ByModel}, store.Filter{Tenant: "blue"})
	must(t, err)
	if diff := cmp.Diff([]store.Sum{
		{Model: say.Verdicts, CostUSD: 2.4},
		{Model: "large", Steps: 12, Calls: 12, Passed: 12, InputTokens: 72, OutputTokens: 12, CostUSD: 2.4},
		{Model: "small", Failed: 12, Calls: 24, Rejected: 12, InputTokens: 96, OutputTokens: 24, CostUSD: 1.2},
	}, byModel); diff != "" {
		t.Error(diff)
	}
	days, err := s.Sums(t.Context(), []store.Dimension{store.ByDay, store.ByKey, store.ByTenant, store.ByPolicy}, store.Filter{Since: start.Add(24 * time.Hour), Until: start.Add(25 * time.Hour)})
	must(t, err)
	if len(days) != 2 || days[0].Day != "2026-11-22" || days[0].Key != "key0" || days[0].Tenant != "acme" || days[0].Policy != "p.hcl@1" || days[0].Steps != 12 {
		t.Errorf("got %+v", days)
	}
	runs, err := s.Runs(t.Context(), store.Filter{Tenant: "acme", Limit: 2})
	must(t, err)
	if len(runs) != 2 || runs[0].Run != "run2" && runs[0].Run != "run0" && runs[0].Run != "run1" || runs[0].Steps != 8 || !runs[0].Last.After(runs[1].Last) {
		t.Errorf("got %+v", runs)
	}
	if _, err := s.Sums(t.Context(), []store.Dimension{"weather"}, store.Filter{}); err == nil {
		t.Error("there are sums by the weather")
	}
}

func pages(t *testing.T, e engine) {
	s := e.Open(t)
	// Three at each time, so that a page ends among equals.
	for i := range 30 {
		one := trace(i)
		one.Start = start.Add(time.Duration(i/3) * time.Second)
		must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{one})))
	}
	seen := map[string]bool{}
	f := store.Filter{Limit: 4}
	for {
		page, err := s.Steps(t.Context(), f)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			if seen[p.ID] {
				t.Errorf("%s comes twice", p.ID)
			}
			seen[p.ID] = true
		}
		f.Before = &page[len(page)-1]
	}
	if len(seen) != 30 {
		t.Errorf("%d of 30", len(seen))
	}
	// Followers see every step, in the order of Seq, whoever writes.
	var wg sync.WaitGroup
	for w := range 3 {
		other := e.Open(t)
		wg.Go(func() {
			for i := range 40 {
				entries := entriesOf([]*sdk.Trace{trace(1000 + 100*w + i)})
				err := other.Record(t.Context(), entries)
				for errors.Is(err, sdk.ErrStoreUnavailable) { // a slow disk keeps the others out
					err = other.Record(t.Context(), entries)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	last, got := int64(0), 0
	for deadline := time.Now().Add(30 * time.Second); got < 150 && time.Now().Before(deadline); {
		fresh, err := s.Follow(t.Context(), last, store.Filter{Limit: 7})
		must(t, err)
		got += len(fresh)
		for _, one := range fresh {
			if one.Seq <= last {
				t.Errorf("%d after %d", one.Seq, last)
			}
			last = one.Seq
		}
	}
	wg.Wait()
	if got != 150 {
		t.Errorf("a follower saw %d of 150", got)
	}
	if seq, err := s.LastSeq(t.Context()); seq != last || err != nil {
		t.Errorf("the last step is %d, want %d (%v)", seq, last, err)
	}
}

// Values that no engine or only some can hold are left out and reported; the rest of the batch is written, and again
// on a retry.
func unwritable(t *testing.T, e engine) {
	s := e.Open(t)
	noise := func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
		}
		return b.String()
	}
	bad := map[string]func(*sdk.Trace){
		"no number":  func(t *sdk.Trace) { t.Features = map[string]float64{"x": math.NaN()} },
		"infinite":   func(t *sdk.Trace) { t.Calls[0].CostUSD = math.Inf(1) },
		"no year":    func(t *sdk.Trace) { t.Start = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no id":      func(t *sdk.Trace) { t.ID = "" },
		"too large":  func(t *sdk.Trace) { t.Calls = make([]sdk.Call, 50_000) },
		"a long id":  func(t *sdk.Trace) { t.ID = noise(20_000) }, // for the index of some engines
		"a twin":     func(t *sdk.Trace) { t.ID = trace(1).ID },
		"a false id": func(t *sdk.Trace) { t.ID = "\x00" + trace(2).ID + "\x00" },
	}
	i := 100
	for name, spoil := range bad {
		batch := []*sdk.Trace{trace(1), trace(2), trace(3), trace(i + 1), trace(i + 2), trace(i + 3)}
		spoil(batch[4])
		err := s.Record(t.Context(), entriesOf(batch))
		if left, ok := errors.AsType[*store.LeftOutError](err); err != nil && (!ok || len(left.Reasons) != 1) {
			t.Errorf("%s: %v", name, err)
		}
		if name != "a long id" && name != "a twin" && name != "a false id" && err == nil {
			t.Errorf("%s: nothing was said", name)
		}
		for _, at := range []int{i + 1, i + 3} {
			if _, err := s.Trace(t.Context(), trace(at).ID); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		i += 10
	}
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	if must(t, err); total[0].Steps < 3+2*int64(len(bad)) || total[0].Steps > 4+2*int64(len(bad)) {
		t.Errorf("%d steps are counted", total[0].Steps)
	}
}

func absurd(t *testing.T, e engine) {
	s := e.Open(t)
	for i := range 40 {
		one := trace(4 * i)
		one.Start = start
		one.Usage = sdk.Usage{InputTokens: math.MaxInt, CachedInputTokens: math.MaxInt, OutputTokens: math.MaxInt}
		one.Calls[0].Usage = one.Usage
		one.CostUSD, one.Calls[0].CostUSD = 1e300, 1e300
		one.Duration, one.Overhead, one.Calls[0].Latency = math.MaxInt64, math.MinInt64, math.MaxInt64
		must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{one})))
	}
	honest := trace(1)
	honest.Start = start
	must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{honest})))
	for _, by := range [][]store.Dimension{nil, {store.ByModel}} {
		if found, err := s.Sums(t.Context(), by, store.Filter{}); err != nil || len(found) == 0 || found[0].InputTokens < 0 || found[0].Overhead < 0 {
			t.Errorf("got %+v, %v", found, err)
		}
	}
	if found, err := s.Steps(t.Context(), store.Filter{}); err != nil || len(found) != 41 {
		t.Errorf("%d steps: %v", len(found), err)
	}
}

// Names that are too long for an index remain distinct and can be found; names that no engine can hold are not found,
// without an error.
func longNames(t *testing.T, e engine) {
	s := e.Open(t)
	long := func(end string) string {
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i)}))
		}
		return b.String() + end
	}
	var batch []*sdk.Trace
	for i, end := range []string{"a", "b"} {
		one := trace(i)
		one.Run, one.Tenant, one.Session, one.QueryID, one.Policy, one.Chosen = long(end), long(end), long(end), long(end), long(end), long(end)
		one.Calls[0].Model = long(end)
		batch = append(batch, one)
	}
	must(t, s.Record(t.Context(), entriesOf(batch, long("a"), long("b"))))
	name := long("b")
	for _, f := range []store.Filter{{Run: name}, {Tenant: name}, {Session: name}, {Query: name}, {Policy: name}, {Chosen: name}, {Key: name}, {Model: name}} {
		if found, err := s.Steps(t.Context(), f); err != nil || len(found) != 1 || found[0].ID != batch[1].ID {
			t.Errorf("%d steps: %v", len(found), err)
		}
	}
	for _, name := range []string{"\x00", "\xff\x00", "a\x00b"} {
		for _, f := range []store.Filter{{Run: name}, {Text: name}, {Model: name}, {Stop: sdk.StopReason(name)}} {
			if _, err := s.Steps(t.Context(), f); err != nil {
				t.Errorf("%+v: %v", f, err)
			}
		}
		if _, err := s.Trace(t.Context(), name); !errors.Is(err, store.ErrNotFound) && err == nil {
			t.Errorf("trace %q: %v", name, err)
		}
		if _, err := s.Whole(t.Context(), []string{name}); err != nil {
			t.Error(err)
		}
		if _, err := s.Runs(t.Context(), store.Filter{Run: name, Tenant: name}); err != nil {
			t.Error(err)
		}
	}
}

// A call that met an open circuit was not sent: it is in the trace, but in no list or sum.
func unsentCalls(t *testing.T, e engine) {
	s := e.Open(t)
	unsent := sdk.Call{Model: "small", Attempt: 1, Error: "small: provider_unavailable: circuit open after repeated failures"}
	// A server, such as another gateway, may say the same of its own models: it was asked.
	upstream := sdk.Call{Model: "large", Attempt: 1, Error: "large: provider_unavailable: openai: status 503: circuit open after repeated failures"}
	answered, failed := trace(0), trace(3)
	answered.Chosen, answered.Calls = "large", []sdk.Call{unsent, upstream, {Model: "large", Attempt: 2, CostUSD: 0.2}}
	failed.Tenant, failed.Calls = answered.Tenant, []sdk.Call{unsent}
	must(t, s.Record(t.Context(), entriesOf([]*sdk.Trace{answered, failed})))
	runs, err := s.Runs(t.Context(), store.Filter{Run: "run0"})
	must(t, err)
	total, err := s.Sums(t.Context(), nil, store.Filter{})
	must(t, err)
	models, err := s.Sums(t.Context(), []store.Dimension{store.ByTenant, store.ByModel}, store.Filter{Tenant: "acme"})
	must(t, err)
	for _, sums := range [][]store.Sum{runs, total} {
		if len(sums) != 1 || sums[0].Steps != 2 || sums[0].Calls != 2 || sums[0].Escalated != 0 {
			t.Errorf("two steps with two calls come to %+v", sums)
		}
	}
	if len(models) != 2 || models[1].Model != "large" || models[1].Calls != 2 || models[1].Failed != 1 {
		t.Errorf("the calls of models come to %+v", models)
	}
	listed, err := s.Steps(t.Context(), store.Filter{})
	if must(t, err); len(listed) != 2 || listed[0].Calls != 0 || listed[1].Calls != 2 || !slices.Equal(listed[1].Asked, []string{"large"}) {
		t.Errorf("listed %+v", listed)
	}
	whole, err := s.Trace(t.Context(), answered.ID)
	if must(t, err); len(whole.Calls) != 3 {
		t.Errorf("the trace has %d calls, want all three", len(whole.Calls))
	}
}
