package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

type overviewPage struct {
	frame
	Asked    pageQuery
	Headline string
	Total    store.Sum
	// Result sums up the steps: spend, savings and quality.
	Result savings.Result
	// Unread counts the steps that Result leaves out: their traces are not read yet, or pruned.
	Unread    int64
	Baselines []string
	Ways      *runComparison
	Failures  *failures
	// Changes is nil until the replay is done, or where the policy is not known.
	Changes   *changes
	Spending  *chart
	ByDay     *chart
	Days      []store.Sum
	Models    []store.Sum
	Tenants   []store.Sum
	Policies  []store.Sum
	Runs      []store.Sum
	Status    *Status
	StatusErr string
	// Example is a step that escalated to the most expensive model that answered.
	Example *store.Step
	Order   []string // models in the order of their colours
}

// pageQuery is the parsed query of a page.
type pageQuery struct {
	store.Filter
	Baseline string
	SinceDay string
	UntilDay string
	Sort     string
}

func readQuery(q url.Values) (pageQuery, error) {
	a := pageQuery{Baseline: q.Get("baseline"), SinceDay: q.Get("since"), UntilDay: q.Get("until"), Sort: q.Get("sort")}
	a.Filter = store.Filter{
		Run: q.Get("run"), Session: q.Get("session"), Tenant: q.Get("tenant"), Key: q.Get("key"), Policy: q.Get("policy"), Mode: q.Get("mode"),
		Query: q.Get("query"), Chosen: q.Get("chosen"), Model: q.Get("model"), Stop: sdk.StopReason(q.Get("stop")), Outcome: q.Get("outcome"),
		Failed: q.Get("failed") != "", Escalated: q.Get("escalated") != "", Text: q.Get("text"),
	}
	for _, d := range []struct {
		text string
		to   *time.Time
		add  time.Duration
	}{{a.SinceDay, &a.Since, 0}, {a.UntilDay, &a.Until, 24 * time.Hour}} {
		if d.text == "" {
			continue
		}
		day, err := time.Parse(time.DateOnly, d.text)
		if err != nil {
			return a, fmt.Errorf("%w: %q is not a day such as 2026-11-21", errBadQuery, d.text)
		}
		*d.to = day.Add(d.add)
	}
	return a, nil
}

func (v *viewer) overview(ctx context.Context, q url.Values) (*overviewPage, error) {
	a, err := readQuery(q)
	if err != nil {
		return nil, err
	}
	p := &overviewPage{frame: v.frame("overview", "Overview", true), Asked: a}
	var traces []*sdk.Trace
	reading, within := errgroup.WithContext(ctx)
	reading.Go(func() error { return p.sums(within) })
	reading.Go(func() (err error) {
		traces, err = v.sampler.newest(within, a.Filter, v.o.Sample)
		return err
	})
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	account, err := v.ledger.account(ctx, &a.Filter, p.Total.Steps)
	if err != nil {
		return nil, err
	}
	p.Baselines = account.Candidates()
	p.Order = p.Baselines
	if !slices.Contains(p.Baselines, p.Asked.Baseline) {
		p.Asked.Baseline = ""
	}
	p.Result = account.Beside(p.Asked.Baseline)
	p.Asked.Baseline = p.Result.Baseline
	p.Unread = p.Total.Steps - int64(p.Result.Read)
	if p.Ways, err = v.compareRuns(ctx, p.Runs); err != nil {
		return nil, err
	}
	if p.Ways == nil {
		p.Spending = spendingChart(account, traces, p.Result.Baseline)
	}
	if p.Example, err = v.exampleStep(ctx, a.Filter, p.Baselines, p.Ways); err != nil {
		return nil, err
	}
	p.Failures = failuresOf(traces)
	if v.o.Policy != nil && len(traces) > 0 {
		wait := replayWait
		if v.export != nil {
			wait = math.MaxInt64 // a file cannot be looked at again
		}
		p.Changes = v.replay.changes(v.o.Policy, fmt.Sprintf("%+v", a.Filter), traces, wait)
	}
	if v.o.Status != nil {
		if p.Status, err = v.o.Status(ctx); err != nil {
			p.Status, p.StatusErr = nil, err.Error()
		}
	}
	p.Headline = p.headline()
	return p, nil
}

// sums reads the store's sums concurrently: those by tenant take as long as the others together.
func (p *overviewPage) sums(ctx context.Context) error {
	reader, f := p.v.o.Traces, p.Asked.Filter
	reading, ctx := errgroup.WithContext(ctx)
	var whole, byDayModel []store.Sum
	for _, d := range []struct {
		by []store.Dimension
		to *[]store.Sum
	}{
		{nil, &whole}, {[]store.Dimension{store.ByDay}, &p.Days}, {[]store.Dimension{store.ByModel}, &p.Models}, {[]store.Dimension{store.ByTenant}, &p.Tenants},
		{[]store.Dimension{store.ByPolicy}, &p.Policies}, {[]store.Dimension{store.ByDay, store.ByModel}, &byDayModel},
	} {
		reading.Go(func() (err error) {
			*d.to, err = reader.Sums(ctx, d.by, f)
			return err
		})
	}
	reading.Go(func() (err error) {
		p.Runs, err = reader.Runs(ctx, store.Filter{Tenant: f.Tenant, Since: f.Since, Until: f.Until, Limit: mostWays})
		return err
	})
	if err := reading.Wait(); err != nil {
		return err
	}
	if len(whole) > 0 {
		p.Total = whole[0]
	}
	for _, list := range []*[]store.Sum{&p.Models, &p.Tenants, &p.Policies} {
		slices.SortStableFunc(*list, func(a, b store.Sum) int { return cmp.Compare(b.CostUSD, a.CostUSD) })
	}
	p.ByDay = p.days(byDayModel)
	return nil
}

// days draws the cost of each model on the last 60 days; nil with fewer than two days.
func (p *overviewPage) days(sums []store.Sum) *chart {
	days := p.Days[max(0, len(p.Days)-60):]
	if len(days) < 2 {
		return nil
	}
	cost := map[[2]string]float64{}
	for i := range sums {
		cost[[2]string{sums[i].Day, sums[i].Model}] += sums[i].CostUSD
	}
	c := &chart{ID: "days", Title: "Spent by day", X: "day", Y: "US dollars", Time: true}
	for i := range p.Models {
		one := series{Name: plainText(p.Models[i].Model), Kind: "line"}
		for k := range days {
			if day, err := time.Parse(time.DateOnly, days[k].Day); err == nil {
				usd := cost[[2]string{days[k].Day, p.Models[i].Model}]
				one.Points = append(one.Points, point{X: float64(day.Unix()), Y: usd, XText: days[k].Day, YText: dollars(usd)})
			}
		}
		c.Series = append(c.Series, one)
	}
	return c
}

func (p *overviewPage) headline() string {
	if p.Total.Steps == 0 {
		return "No steps yet."
	}
	if p.Ways != nil {
		return p.Ways.Sentence
	}
	r := &p.Result
	text := fmt.Sprintf("%s cost %s", count(p.Total.Steps, "step"), dollars(p.Total.CostUSD))
	if p.Unread > 0 {
		text += fmt.Sprintf(", and the %s whose traces are kept and read %s", formatWhole(r.Read), dollars(r.SpentUSD))
	}
	if r.BaselineUSD > 0 && r.Share() > -1 {
		what, share := "less", r.Share()
		if share < 0 {
			what, share = "more", -share
		}
		if r.Embeddings > 0 { // BaselineUSD does not cover them
			what += " without embeddings"
		}
		text += fmt.Sprintf(": %s %s than asking %s each time", percent(share), what, plainText(r.Baseline))
		if r.TwoStdErrorsUSD > 0 {
			text += fmt.Sprintf(" (± %s)", percent(r.ShareTwoStdErrors()))
		}
	}
	return text + "; quality: " + plainText(r.Quality.String()) + "."
}

func (p *overviewPage) KnowsPolicy() bool { return p.v.o.Policy != nil }

func (p *overviewPage) AnsweredShare() string {
	if p.Result.Steps == 0 {
		return "–"
	}
	return percent(1 - float64(p.Result.Unanswered)/float64(p.Result.Steps))
}

func count(n int64, noun string) string { return formatWhole(n) + " " + say.Plural(n, noun) }

// exampleStep returns an escalated step that was answered by the most expensive model possible, or nil.
func (v *viewer) exampleStep(ctx context.Context, f store.Filter, models []string, w *runComparison) (*store.Step, error) {
	f.Escalated, f.Limit = true, 20
	if w != nil {
		f.Run = w.Best.Name
	}
	for _, name := range slices.Backward(models) {
		f.Chosen = name
		list, err := v.o.Traces.Steps(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			best := slices.MaxFunc(list, func(a, b store.Step) int { return cmp.Compare(len(a.Asked), len(b.Asked)) })
			return &best, nil
		}
	}
	return nil, nil
}

// spendingChart draws the cumulative cost of the newest steps and of the baseline; nil with fewer than three points.
func spendingChart(account *savings.Account, traces []*sdk.Trace, baseline string) *chart {
	c := &chart{
		ID: "spending", Title: "Spent, and what the baseline would have cost", X: "step", Y: "US dollars, added up",
		Note: "The newest " + formatWhole(len(traces)) + " steps, added up from the oldest of them. Where " + plainText(baseline) + " was not asked, its cost is estimated: its prices for the answer's tokens, corrected by the tokens of both elsewhere.",
	}
	spent, would := series{Name: "spent", Kind: "line"}, series{Name: "always " + plainText(baseline), Kind: "line"}
	a, b, n := 0.0, 0.0, 0
	every := max(1, len(traces)/200)
	for i, t := range traces {
		usd, known := account.BaselineCost(t, baseline)
		if !known {
			continue
		}
		a, b, n = a+t.CostUSD, b+usd, n+1
		if n%every == 0 || i == len(traces)-1 {
			spent.Points = append(spent.Points, point{X: float64(n), Y: a, XText: formatWhole(n), YText: dollars(a)})
			would.Points = append(would.Points, point{X: float64(n), Y: b, XText: formatWhole(n), YText: dollars(b)})
		}
	}
	if len(spent.Points) < 3 {
		return nil
	}
	c.Series = []series{would, spent}
	return c
}
