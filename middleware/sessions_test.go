package middleware_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// answered is a step in which these models answered, the last of them chosen, each with 1000 uncached, 200 cached
// and 30 cache-writing input tokens.
func answered(models ...int) *step.Result {
	r := &step.Result{}
	for _, i := range models {
		r.Index = i
		r.Attempts = append(r.Attempts, sdk.Attempt{Answer: sdk.Answer{Model: fmt.Sprint("m", i), Usage: sdk.Usage{InputTokens: 1000, CachedInputTokens: 200, CacheWriteTokens: 30, OutputTokens: 7}}})
	}
	return r
}

// A conversation's offsets are the cost of switching minus the savings of each model's prompt cache, as long as the
// cache and the conversation live.
func TestWhatAConversationChangesInCosts(t *testing.T) {
	models := []sdk.Model{
		{Name: "m0", Price: sdk.Price{Input: 10, CachedInput: 1}},
		{Name: "m1", Price: sdk.Price{Input: 5, CachedInput: 5}},
		{Name: "m2", Price: sdk.Price{Input: 2, CachedInput: 4}}, // a cache that is dearer saves nothing
	}
	saved := 1230 * (10.0 - 1) / 1e6
	for what, c := range map[string]struct {
		config middleware.SessionConfig
		used   []int
		later  time.Duration
		want   []float64
	}{
		"at once":                  {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0}, 0, []float64{-saved, 0.5, 0.5}},
		"just before":              {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0}, 5*time.Minute - 1, []float64{-saved, 0.5, 0.5}},
		"the cache is over":        {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0}, 5 * time.Minute, []float64{0, 0.5, 0.5}},
		"another model answered":   {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0, 1}, 0, []float64{0.5 - saved, 0, 0.5}},
		"a dear cache":             {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{2}, 0, []float64{0.5, 0.5, 0}},
		"its last moment":          {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0}, 30 * time.Minute, []float64{0, 0.5, 0.5}},
		"the conversation is over": {middleware.SessionConfig{SwitchCostUSD: 0.5}, []int{0}, 30*time.Minute + 1, nil},
		"a longer cache":           {middleware.SessionConfig{CacheTTL: time.Hour, IdleTimeout: 2 * time.Hour}, []int{0}, 50 * time.Minute, []float64{-saved, 0, 0}},
		"caches ignored":           {middleware.SessionConfig{IgnoreCache: true, SwitchCostUSD: 0.5}, []int{0}, 0, []float64{0, 0.5, 0.5}},
		"costs know of caches":     {middleware.SessionConfig{CachedUSD: map[string]float64{"m0": saved / 4}}, []int{0}, 0, []float64{-0.75 * saved, 0, 0}},
		"a cache as in the fit":    {middleware.SessionConfig{CachedUSD: map[string]float64{"m0": saved}}, []int{0}, 0, []float64{0, 0, 0}},
		"less cached than usual":   {middleware.SessionConfig{CachedUSD: map[string]float64{"m0": saved}, FirstCachedUSD: map[string]float64{"m0": saved / 4}}, []int{1}, 0, []float64{0.75 * saved, 0, 0}},
		"ignored, clock goes back": {middleware.SessionConfig{IgnoreCache: true, SwitchCostUSD: 0.5}, []int{0}, -time.Minute, []float64{0, 0.5, 0.5}},
		"off":                      {middleware.SessionConfig{Off: true, SwitchCostUSD: 0.5}, []int{0}, 0, nil},
	} {
		now := time.Unix(1e9, 0)
		s := middleware.NewSessions(c.config, models, func() time.Time { return now })
		s.RecordUse("c", answered(c.used...))
		now = now.Add(c.later)
		got := s.Offsets("c")
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%s: %v, want %v", what, got, c.want)
			}
		}
		if s.Offsets("another") != nil || s.Offsets("") != nil {
			t.Errorf("%s: a conversation that never was changes costs", what)
		}
	}
	s := middleware.NewSessions(middleware.SessionConfig{}, models, nil)
	s.RecordUse("c", &step.Result{Index: -1})
	if s.Offsets("c") != nil {
		t.Error("a step that failed is remembered")
	}
}

// A prompt that the provider did not cache has no cached price: a provider that charges for writes reports them, and
// the others would have read a second prompt of the conversation.
func TestOnlyWhatIsCachedIsCheaper(t *testing.T) {
	auto, marked := sdk.Price{Input: 10, CachedInput: 1}, sdk.Price{Input: 10, CachedInput: 1, CacheWrite: 12.5}
	for what, c := range map[string]struct {
		price  sdk.Price
		wait   time.Duration // between the steps
		usages []sdk.Usage
		want   int // tokens
	}{
		"a first prompt":     {auto, 0, []sdk.Usage{{InputTokens: 900}}, 900},
		"read":               {auto, 0, []sdk.Usage{{InputTokens: 900}, {InputTokens: 100, CachedInputTokens: 900}}, 1000},
		"never read":         {auto, 0, []sdk.Usage{{InputTokens: 900}, {InputTokens: 1000}, {InputTokens: 1100}}, 0},
		"read later":         {auto, 0, []sdk.Usage{{InputTokens: 900}, {InputTokens: 1000}, {InputTokens: 1100, CachedInputTokens: 10}}, 1110},
		"read too late":      {auto, 5 * time.Minute, []sdk.Usage{{InputTokens: 900}, {InputTokens: 1000}}, 1000},
		"nothing marked":     {marked, 0, []sdk.Usage{{InputTokens: 900}}, 0},
		"a part marked":      {marked, 0, []sdk.Usage{{InputTokens: 100, CacheWriteTokens: 900}}, 900},
		"a part of it again": {marked, 0, []sdk.Usage{{CacheWriteTokens: 900}, {InputTokens: 7, CachedInputTokens: 900, CacheWriteTokens: 50}}, 950},
	} {
		now := time.Unix(1e9, 0)
		s := middleware.NewSessions(middleware.SessionConfig{}, []sdk.Model{{Name: "m0", Price: c.price}}, func() time.Time { return now })
		for i := range c.usages {
			now = now.Add(c.wait)
			s.RecordUse("c", &step.Result{Attempts: []sdk.Attempt{{Answer: sdk.Answer{Model: "m0", Usage: c.usages[i]}}}})
		}
		if got, want := s.Offsets("c")[0], -9e-6*float64(c.want); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// The number of remembered conversations is limited: a new one replaces the one used least recently.
func TestNoMoreConversationsThanMayBe(t *testing.T) {
	models := []sdk.Model{{Name: "m0"}}
	for limit, want := range map[int]int{64: 64, 0: 2000} {
		now := time.Unix(1e9, 0)
		s := middleware.NewSessions(middleware.SessionConfig{MaxSessions: limit}, models, func() time.Time { return now })
		remembered := func(prefix string, n int) (count int) {
			for i := range n {
				if s.Offsets(fmt.Sprint(prefix, i)) != nil {
					count++
				}
			}
			return count
		}
		for i := range 2000 {
			s.RecordUse(fmt.Sprint("c", i), answered(0))
		}
		if got := remembered("c", 2000); got != want {
			t.Errorf("at most %d: %d are remembered, want %d", limit, got, want)
		}
		if limit == 0 {
			continue
		}
		now = now.Add(time.Hour)
		for i := range 32 {
			s.RecordUse(fmt.Sprint("new", i), answered(0))
		}
		now = now.Add(time.Minute)
		if got := remembered("c", 2000); got != 0 {
			t.Errorf("%d conversations that are over are remembered", got)
		}
		// On average there are two per shard, each of which has room for four.
		if got := remembered("new", 32); got < 20 {
			t.Errorf("%d of 32 new conversations are remembered", got)
		}
	}
}

// A conversation that goes on is remembered, however many others begin.
func TestAConversationInUseIsRemembered(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := middleware.NewSessions(middleware.SessionConfig{MaxSessions: 64}, []sdk.Model{{Name: "m0"}}, func() time.Time { return now })
	for i := range 2000 {
		now = now.Add(time.Second)
		s.RecordUse("c", answered(0))
		s.RecordUse(fmt.Sprint("new", i), answered(0))
		if s.Offsets("c") == nil {
			t.Fatalf("it is forgotten after %d new ones", i+1)
		}
	}
}

// routes is a strategy that runs one model, with a dollar worth one unit of quality.
func routes(t *testing.T) cascade.Strategy {
	t.Helper()
	s, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// notes are shared conversations in a map.
type notes struct {
	mu   sync.Mutex
	byID map[string][]byte
	ttl  time.Duration
}

func (n *notes) Load(id string) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byID[id]
}

func (n *notes) Save(id string, note []byte, ttl time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byID[id], n.ttl = note, ttl
}

// Another process keeps a conversation on its model if it finds a note about it. An unreadable note is ignored.
func TestConversationsAreSharedByTheirNotes(t *testing.T) {
	shared := &notes{byID: map[string][]byte{"broken": []byte("{")}}
	model := func() *middleware.Model {
		a, b := small(says("small")), small(says("cheaper"))
		b.Model.Name = "cheaper"
		b.Model.Price = sdk.Price{Input: 0.99, Output: 1.99}
		return wrap(t, middleware.Config{Models: []middleware.Candidate{a, b}, Conversations: shared, Lambda: 1,
			Session: middleware.SessionConfig{SwitchCostUSD: 1, IdleTimeout: time.Hour}, Step: step.Config{Strategy: routes(t)}})
	}
	ask := func(m *middleware.Model, id string) string {
		resp, err := m.GenerateContent(middleware.WithInfo(t.Context(), middleware.Info{Session: id}), human("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Choices[0].Content
	}
	first, second := model(), model()
	if got := ask(second, "broken"); got != "cheaper" {
		t.Errorf("a note that cannot be read: %s", got)
	}
	if got := ask(first, "c"); got != "cheaper" || shared.ttl != time.Hour || shared.byID["c"] == nil {
		t.Errorf("%s, a note for %v", got, shared.ttl)
	}
	// Assign the conversation to the more expensive model.
	shared.byID["moved"] = []byte(`{"last":{"Name":"small"},"used":"` + time.Now().Format(time.RFC3339Nano) + `","cached":[]}`)
	if got := ask(second, "moved"); got != "small" {
		t.Errorf("the note of another process is not heard: %s", got)
	}
}
