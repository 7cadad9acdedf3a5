package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/fit"
)

// notJudged is the doubt about a profile whose policy judges fewer answers than its fit.
const notJudged = "not every answer is judged, but if they were,"

// report prints what a profile promises and, both first and last, a warning if it saves nothing.
func (f *fitFlags) report(s Streams, p *fit.Profile, path string, policy *policies.Policy, rival *policyRival, u forecastInUse, saved *benefit) error {
	result := fitResult{Profile: p, Written: checkPromises(p) == nil, Path: path, Rival: rival, Benefit: saved, Unpriced: f.unpriced, Unjudged: f.unjudged, forecastInUse: u}
	if policy != nil {
		learned := p.Estimator.Judges
		if p.Data.Inferred > 0 && p.Data.Truths == 0 && p.Data.Assumed == nil {
			learned = nil // rates learned from verdicts alone check nothing
		}
		result.Unchecked = policy.UncheckedJudges(learned)
		result.Unbought = unboughtJudges(policy, p)
	}
	return s.render(result, func(w *printer) {
		fault := ""
		if saved != nil && saved.String() != "" {
			fault = saved.String() + "\n"
		}
		doubt := ""
		if p.Data.Labels != "" || result.Unchecked != nil || p.Data.Inferred > 0 {
			doubt = "these labels may be wrong, but according to them,"
		}
		if len(f.unjudged) > 0 {
			doubt = notJudged
			fault = fmt.Sprintf("NOTHING IS PROMISED: no verifier of %s judges the answers of %s, and the costs and qualities of this profile take every answer for judged. "+
				"Let a verifier judge them, or fit to verdicts (columns verdict_NAME) without --verified; they hold if your program judges them\n%s", f.policy, strings.Join(f.unjudged, ", "), fault)
		}
		w.f("%s", fault)
		reportFit(w, p, path, doubt, f.judged)
		if len(f.unpriced) > 0 {
			w.f("THESE COSTS DO NOT INCLUDE THE VERDICTS OF %s, whose costs are not recorded (column %s%s); max_usd limits each\n",
				strings.Join(f.unpriced, ", "), f.unpriced[0], sdk.SignalCostUSD)
		}
		isLearned := func(judge string) bool { _, ok := p.Estimator.Judges[judge]; return ok }
		w.warnUnchecked(f.policy, slices.DeleteFunc(slices.Clone(result.Unchecked), isLearned))
		if at := slices.IndexFunc(result.Unchecked, isLearned); at >= 0 {
			w.f("%s: THE ERROR RATES OF %[2]s HAVE NOT BEEN CHECKED: they are learned from verdicts alone, which hide errors common to all answers to a query; "+
				"add verdicts on runs, or outcomes with a column verdict_%[2]s and the truth\n", f.policy, result.Unchecked[at])
		}
		for _, judge := range result.Unbought {
			w.f("%s IS NEVER ASKED with this profile: the estimator %s cannot predict what its verdict gains. Use the estimator latent, and outcomes with columns %s and %s%s\n",
				judge, p.Estimator.Quality.Kind(), judge, judge, sdk.SignalCostUSD)
		}
		if u.With != nil {
			usd := func(f *forecast.Forecast) string {
				low, high := forecast.RepeatInterval(f.CostUSD, f.CostStdError)
				return fmt.Sprintf("%s USD (%s to %s)", dollars(f.CostUSD), dollars(low), dollars(high))
			}
			w.f("IN USE a query costs %s, and %s without the profile: %s with its match blocks and holdout on the runs of these traces, as in stepfall policy plan --traces; in brackets the 95 %% range over as many new runs\n",
				usd(u.With), usd(u.Without), u.With.Policy)
			if p.Budget.USD > 0 && u.With.CostUSD > (1+fit.Tolerance)*p.Budget.USD {
				w.f("THE BUDGET IS EXCEEDED IN USE: what is said of it above holds for the profile's own decisions, without match blocks and holdout\n")
			}
		}
		if saved != nil {
			saved.Runs.print(w, saved)
		}
		if rival != nil {
			rival.print(w, path)
		}
		w.f("%s", fault)
	})
}

// unboughtJudges names the policy's bought verifiers that the profile's estimator never buys.
func unboughtJudges(policy *policies.Policy, p *fit.Profile) (names []string) {
	for i := range policy.Verifiers {
		v := &policy.Verifiers[i]
		if v.As == "bought" && !slices.Contains(p.Estimator.Buys(), v.Name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// fitResult is the output of fit --json: a profile without its estimator and curve, which are in the file.
type fitResult struct {
	*fit.Profile

	Curve     *struct{} `json:"curve,omitempty"`
	Estimator *struct{} `json:"estimator,omitempty"`
	Written   bool      `json:"written"`
	Path      string    `json:"path"`
	// Unchecked names the policy's judges whose error rates cannot be measured on these outcomes.
	Unchecked []string `json:"unchecked_judges,omitempty"`
	// Unbought names the verifiers as = "bought" that this profile never buys.
	Unbought []string `json:"unbought_judges,omitempty"`
	// Unpriced names the policy's judges whose verdicts have no price in these outcomes.
	Unpriced []string `json:"unpriced_verifiers,omitempty"`
	// Unjudged names the candidates whose answers the fit takes for judged, but no verifier of the policy judges.
	Unjudged []string `json:"unjudged_models,omitempty"`
	// Rival is the policy without the profile, if it compares answers.
	Rival *policyRival `json:"without_profile,omitempty"`
	// Benefit is nil where no profile is written.
	Benefit *benefit `json:"benefit,omitempty"`
	forecastInUse
}

// reportFit prints what a profile promises and how well it is calibrated. With a doubt, nothing is promised.
func reportFit(w *printer, p *fit.Profile, path, doubt string, judged map[string]judgedCounts) {
	st := &p.Strategy
	values, knob := st.Lambdas, "lambda"
	if values == nil {
		values, knob = st.Thresholds, "threshold"
	}
	w.f("%s: strategy %s, %s %.6g, gamma %.3g", path, st.Name, knob, values, st.Gamma)
	if st.Scale != 0 || st.NoExpect {
		w.f(", scale %.2g", st.Scale)
	}
	if st.MaxDepth > 0 {
		w.f(", at most %d models a query", st.MaxDepth)
	}
	w.f("\n")
	reportData(w, p)
	reportExpected(w, p)
	if h := p.HeldOut; h != nil && !p.Budget.Over && doubt != notJudged {
		reportPromise(w, h, p.Data.Complete, p.Budget.Reached)
	}
	reportQuality(w, p, doubt)
	reportJudges(w, p, judged)
	if p.Data.Inferred > 0 {
		w.f("THE QUALITIES OF %s ARE VERDICTS: those above are inferred from all verdicts on a query at these error rates; the truth of %s is known from the end of a run\n",
			strings.ToUpper(count(p.Data.Inferred, "answer")), count(p.Data.Truths, "answer"))
	}
	reportLadder(w, p.Ladder)
	reportCalibration(w, p.Calibration)
}

// reportData prints what a profile was fitted to and, for labels, which pair of models it asks.
func reportData(w *printer, p *fit.Profile) {
	w.f("fitted to %d queries (%d with every model), estimators %s and %s\n",
		p.Data.Queries, p.Data.Complete, p.Estimator.Quality.Kind(), p.Estimator.Cost.Kind())
	if p.Data.Drawn > 0 {
		w.f("%d of %d outcomes are simulated, with the means of randomly asked models: the model was not asked\n", p.Data.Drawn, p.Data.Queries*len(p.Models))
	}
	if p.Data.Labels == "" {
		return
	}
	w.f("fitted to %s, which measures no quality\n", p.Data.Labels)
	for _, m := range p.Models {
		if m.Right > 0 {
			w.f("%s is right in about %.0f %% (by these labels, within some 7 points)\n", m.Name, 100*m.Right)
		}
	}
	if more := enoughLabels - p.Data.Complete; more > 0 {
		w.f("about %d shadowed steps with such labels show which model is best: record %d more (share in the shadow block, or STEPFALL__SHADOW__SHARE, is one step in ten by default)\n", enoughLabels, more)
	}
	if order := p.Strategy.Order; p.Budget.USD == 0 && p.Kept == nil && len(order) == 3 {
		w.f("%s and %s are asked, and %s if their answers differ: the cheapest pair whose cascade gives its answer on 93 %% of the steps\n", order[0], order[1], order[2])
	}
}

// reportExpected prints the expected cost and quality of a query, and the budget.
func reportExpected(w *printer, p *fit.Profile) {
	quality := "quality %"
	if p.Data.Labels != "" {
		quality = p.Data.Labels + " %"
	}
	table := w.table(column{name: ""}, column{"USD per query", true}, column{quality, true}, column{"models run", true})
	if p.Budget.USD > 0 {
		table.row("budget", dollars(p.Budget.USD), "", "")
	}
	table.row("fitted", dollars(p.Expected.CostUSD), percent(p.Expected.Quality), fmt.Sprintf("%.2f", p.Expected.Steps))
	if h := p.HeldOut; h != nil {
		table.row("held out", dollars(h.CostUSD)+" ± "+dollars(2*h.CostStdError), percent(h.Quality), "")
	}
	table.print()
	switch {
	case p.Budget.Over:
		w.f("THE BUDGET CANNOT BE MET: the strategy spends at least %s USD a query\n", dollars(p.Expected.CostUSD))
	case p.Budget.BetterUSD > 0:
		w.f("the budget is not used up: the next better setting costs %s USD a query, too far above it to mix the two\n", dollars(p.Budget.BetterUSD))
	case p.Budget.USD > 0 && !p.Budget.Reached:
		w.f("the budget is not used up: no more expensive setting of this strategy is better\n")
	}
}

func reportJudges(w *printer, p *fit.Profile, judged map[string]judgedCounts) {
	said := func(judge string, r cascade.Rates, use string) {
		of := ""
		if c, known := judged[judge]; known {
			of = " (" + c.String() + ")"
		} else if p.Data.Inferred > 0 {
			of = fmt.Sprintf(" (learned from verdicts, for %d of which the truth is known)", p.Data.Truths)
		}
		w.f("judge %s passes %.1f %% of wrong answers and rejects %.1f %% of right ones%s: its verdicts are %s\n", judge, 100*r.FalsePass, 100*r.FalseReject, of, use)
	}
	for _, judge := range slices.Sorted(maps.Keys(p.Estimator.Judges)) {
		if _, assumed := p.Data.Assumed[judge]; !assumed {
			said(judge, p.Estimator.Judges[judge], "evidence")
		}
	}
	bought := p.Estimator.BoughtJudges()
	for _, judge := range slices.Sorted(maps.Keys(bought)) {
		said(judge, bought[judge], "bought if they are worth their price")
	}
	for _, judge := range slices.Sorted(maps.Keys(p.Data.Assumed)) {
		r, whose := p.Data.Assumed[judge], "the rates of a policy without a profile"
		if _, kept := p.Estimator.Judges[judge]; kept {
			whose = "the rates that the profile in use has learned"
		}
		w.f("judge %s is assumed to pass %.3g %% of wrong answers and to reject %.3g %% of right ones, %s: its verdicts are evidence\n", judge, 100*r.FalsePass, 100*r.FalseReject, whose)
	}
}

// reportCalibration prints Brier scores and reliability of the estimates. c can be nil.
func reportCalibration(w *printer, c *fit.Calibration) {
	if c == nil {
		return
	}
	post := fit.Reliability{}
	w.f("Brier score of estimates (of each model's mean alone): ex-ante %.4f (%.4f)", c.Ante.Brier, c.Ante.Reference)
	columns := []column{{name: "estimate"}, {"ex-ante", true}, {"quality %", true}}
	if c.Post != nil {
		post = *c.Post
		w.f(", post-hoc %.4f (%.4f)", post.Brier, post.Reference)
		columns = append(columns, column{"post-hoc", true}, column{"quality %", true})
	}
	w.f("\n")
	bins := w.table(columns...)
	for i, a := range c.Ante.Bins {
		row := []any{fmt.Sprintf("%.1f to %.1f", float64(i)/10, float64(i+1)/10), a.Count, share(a), post.Bins[i].Count, share(post.Bins[i])}
		bins.row(row[:len(columns)]...)
	}
	bins.print()
}

func reportQuality(w *printer, p *fit.Profile, doubt string) {
	promised := "PROMISED"
	if doubt != "" {
		promised = "not promised, since " + doubt
	}
	if k := p.Kept; k != nil {
		points, difference := k.Quality, ""
		if k.AsGoodAs != "" {
			if difference = " above it"; points < 0 {
				points, difference = -points, " below it"
			}
		}
		w.f("%s with confidence %.2g over %d new queries: %s; on unseen queries it was %.2f points%s\n",
			promised, k.Confidence, p.Data.Complete, k.String(), 100*points, difference)
	}
	v := p.Served
	switch {
	case v == nil:
	case v.Estimate > 1:
		w.f("AT MOST %.3g %% WRONG CANNOT BE PROMISED for any part of the answers from these outcomes\n", 100*v.MaxWrong)
	default:
		w.f("%s with confidence %.2g: of answers with an estimate of at least %.4f at most %.3g %% are wrong; on unseen queries these were %.1f %% of all answers, of which %.1f %% were wrong\n",
			promised, v.Confidence, v.Estimate, 100*v.MaxWrong, 100*v.Share, 100*v.Wrong)
	}
}

// reportLadder compares verdicts used as evidence with verdicts treated as final. l can be nil.
func reportLadder(w *printer, l *fit.Ladder) {
	if l == nil {
		return
	}
	w.f("compared with ladders of models that treat these verdicts as final, chosen on other queries (%s USD, %.2f %%): %+.2f ± %.2f points\n",
		dollars(l.CostUSD), 100*l.Quality, 100*l.Gain, 200*l.GainStdError)
	switch {
	case l.Behind() && l.Priced:
		w.f("EVIDENCE IS BEHIND A LADDER on these outcomes: verdicts cost money, and a ladder does not pay for the last one\n")
	case l.Behind():
		w.f("EVIDENCE IS BEHIND A LADDER on these outcomes: the judge's errors may be the same for all answers to a query; fit --strategy threshold, or route, and compare\n")
	}
	if l.Priced {
		w.f("this fit pays for every verdict; strategy index buys those of a single judge, and of judges with as = \"bought\" in the policy, only where they are worth their price\n")
	}
}

// reportPromise prints whether the budget held on unseen queries, and what can be promised.
func reportPromise(w *printer, h *fit.HeldOut, queries int, reached bool) {
	verdict := "held"
	if !h.Held {
		verdict = "DID NOT HOLD"
	}
	w.f("on unseen queries the budget %s to within %.0f %%\n", verdict, 100*fit.Tolerance)
	paced := ""
	if reached { // else the router never reaches the budget
		paced = fmt.Sprintf(" with the fitted numbers alone, and %.2f if a router paces spending", h.Paced)
	}
	w.f("%d new queries stay within %.0f %% of it with probability %.2f%s\n", queries, 100*fit.Tolerance, h.Confidence, paced)
	switch h.Promise {
	case fit.PromiseAlways:
		w.f("the budget is promised\n")
		return
	case fit.PromisePaced:
		w.f("the budget is promised if spending is paced, as routers do with a profile (hold_over in the budget block)\n")
	case fit.PromiseNone:
		w.f("THE BUDGET CANNOT BE PROMISED for %d queries: costs differ too much from query to query\n", queries)
	}
	if h.From > 0 {
		w.f("with the fitted numbers alone it could be promised for %d queries or more\n", h.From)
	} else {
		w.f("with the fitted numbers alone it cannot be promised for any number of queries: %d outcomes say too little about costs\n", queries)
	}
}

func share(b fit.Bin) string {
	if b.Count == 0 {
		return "-"
	}
	return percent(b.Quality)
}
