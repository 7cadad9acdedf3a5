package holdout

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/sdk"
)

// alpha is the probability that a comparison ever excludes the truth.
const alpha = 0.05

// maxRuns bounds the runs that an account remembers by name. A later step of a dropped run counts as a new run.
const maxRuns = 100_000

// arm adds up the runs of one arm.
type arm struct {
	Runs int `json:"runs"`
	// USD is their total cost, and Squares the sum of the squares of each run's cost.
	USD     float64 `json:"usd"`
	Squares float64 `json:"squares"`
	// Judged counts the runs with a verdict, Right those that passed.
	Judged int `json:"judged"`
	Right  int `json:"right"`
}

// Account adds up both arms from traces. The zero value is ready to use; it is safe for concurrent use.
type Account struct {
	mu            sync.Mutex
	base, treated arm
	runs          map[string]*run
	order         []string // run names, oldest first
}

// run is the state of one run.
type run struct {
	baseline      bool
	usd           float64
	judged, right bool
	// isRemoved reports that the run is not compared.
	isRemoved bool
}

// Record adds a step, or a verdict on a run; it implements [step.Sink]. Steps that have no part in a holdout are
// ignored: those without a run, of policies without a holdout, and those after a fallback. A run with a step that a
// cap refused is removed, since it costs less than its arm does; so is one with a step that the baseline should have
// answered and did not.
func (a *Account) Record(_ context.Context, t *sdk.Trace) {
	if !sdk.IsStep(t.Mode) {
		a.recordVerdict(t)
		return
	}
	if t.Holdout == nil || t.Holdout.Fallback {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	unit := Unit(t.Tenant, t.Run, cmp.Or(t.Session, t.Conversation), t.ID)
	r := a.runs[unit]
	if r == nil {
		r = a.addRun(unit, t.Holdout.Baseline)
	}
	if r.isRemoved {
		return
	}
	if t.Holdout.BaselineFailed || t.Chosen == "" && t.Stop == sdk.StopBudget {
		a.removeRun(r)
		return
	}
	arm := a.arm(r)
	arm.USD += t.CostUSD
	arm.Squares += (r.usd+t.CostUSD)*(r.usd+t.CostUSD) - r.usd*r.usd
	r.usd += t.CostUSD
}

// removeRun removes a run from its arm. The lock is held.
func (a *Account) removeRun(r *run) {
	arm := a.arm(r)
	arm.Runs, arm.USD, arm.Squares = arm.Runs-1, arm.USD-r.usd, arm.Squares-r.usd*r.usd
	arm.count(r, -1)
	r.isRemoved = true
}

// count counts the verdict on a run, times times.
func (a *arm) count(r *run, times int) {
	if r.judged {
		a.Judged += times
	}
	if r.right {
		a.Right += times
	}
}

// addRun adds a run, and drops the oldest above maxRuns. The lock is held.
func (a *Account) addRun(unit string, baseline bool) *run {
	if a.runs == nil {
		a.runs = map[string]*run{}
	}
	if len(a.order) >= maxRuns {
		delete(a.runs, a.order[0])
		a.order = a.order[1:]
	}
	r := &run{baseline: baseline}
	a.runs[unit], a.order = r, append(a.order, unit)
	a.arm(r).Runs++
	return r
}

func (a *Account) arm(r *run) *arm {
	if r.baseline {
		return &a.base
	}
	return &a.treated
}

// recordVerdict replaces the verdict on a run. An inconclusive one removes it.
func (a *Account) recordVerdict(t *sdk.Trace) {
	quality, judged := t.Verdict.Quality()
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.runs[Unit(t.Tenant, t.Run, t.Session, t.ID)]
	if r == nil || r.isRemoved {
		return
	}
	a.arm(r).count(r, -1)
	r.judged, r.right = judged, judged && quality >= 0.5
	a.arm(r).count(r, 1)
}

// Unit returns the name of the unit of randomisation: the run; for a step without one, the session; without either,
// the step itself.
func Unit(tenant, run, session, id string) string {
	switch {
	case run != "":
		return tenant + "\x00run " + run
	case session != "":
		return tenant + "\x00session " + session
	}
	return tenant + "\x00step " + id
}

// Add adds the runs of another account, which must have no run in common with a.
func (a *Account) Add(b *Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base.add(b.base)
	a.treated.add(b.treated)
}

// hasOnlyFailures reports whether hardly any verdicts are on runs that were right, and some runs have none.
func hasOnlyFailures(a, b *arm) bool {
	const hardlyAny = 0.1
	judged, right := a.Judged+b.Judged, a.Right+b.Right
	return judged > 0 && judged < a.Runs+b.Runs && float64(right) <= hardlyAny*float64(judged)
}

// failures returns the number of runs that were reported as failed.
func (a *arm) failures() int { return a.Judged - a.Right }

func (a *arm) add(b arm) {
	a.Runs, a.USD, a.Squares = a.Runs+b.Runs, a.USD+b.USD, a.Squares+b.Squares
	a.Judged, a.Right = a.Judged+b.Judged, a.Right+b.Right
}

// Comparison compares the policy with its baseline.
type Comparison struct {
	Baseline arm `json:"baseline"`
	Policy   arm `json:"policy"`
	// Saved is the share of the baseline's cost per run that the policy saves; nil until each arm has 50 runs.
	Saved *Interval `json:"saved,omitempty"`
	// Success is the policy's share of right runs minus the baseline's, both of the runs with a verdict; nil where an
	// arm has none, and where Failures is known.
	Success *Interval `json:"success,omitempty"`
	// Failures is the policy's share of runs that were reported as failed minus the baseline's, both of all runs. It is
	// known where hardly anyone reports the runs that went well, so that verdicts do not show how many did. It is
	// smaller than the true difference if not every failure is reported.
	Failures *Interval `json:"reported_failures,omitempty"`
}

// Compare compares the policy with its baseline, on the runs so far.
func (a *Account) Compare() Comparison {
	a.mu.Lock()
	defer a.mu.Unlock()
	return compare(a.base, a.treated)
}

func compare(base, policy arm) Comparison {
	c := Comparison{Baseline: base, Policy: policy}
	if base.Runs >= minRuns && policy.Runs >= minRuns && base.USD > 0 && policy.USD > 0 {
		// The smaller arm may have seen none of the rare, very expensive runs.
		variance := max(base.relativeVariance(), policy.relativeVariance())
		b, p := mean(base.Runs, base.USD, variance, alpha/2), mean(policy.Runs, policy.USD, variance, alpha/2)
		c.Saved = &Interval{Estimate: 1 - p.Estimate/b.Estimate, Low: 1 - p.High/b.Low, High: 1 - p.Low/b.High}
	}
	switch {
	case base.Runs > 0 && policy.Runs > 0 && hasOnlyFailures(&base, &policy):
		c.Failures = difference(policy.failures(), policy.Runs, base.failures(), base.Runs)
	case base.Judged > 0 && policy.Judged > 0:
		c.Success = difference(policy.Right, policy.Judged, base.Right, base.Judged)
	}
	return c
}

// String describes the result in a sentence or two. It is "" until there is an interval for costs or a significant
// harm.
func (c *Comparison) String() string {
	harm := c.Harm()
	if c.Saved == nil && harm == "" {
		return ""
	}
	text := fmt.Sprintf("Measured by a holdout, %d runs by the policy and %d by the baseline", c.Policy.Runs, c.Baseline.Runs)
	switch {
	case c.Saved == nil:
		text += "."
	case c.Saved.Estimate < 0:
		text += fmt.Sprintf(": it costs %.0f %% more (%.0f to %.0f %%).", -100*c.Saved.Estimate, -100*c.Saved.High, -100*c.Saved.Low)
	default:
		text += fmt.Sprintf(": it saves %.0f %% (%.0f to %.0f %%).", 100*c.Saved.Estimate, 100*c.Saved.Low, 100*c.Saved.High)
	}
	if c.Success != nil {
		text += fmt.Sprintf(" Right: %.0f %% of %d runs, against %.0f %% of %d: %s.", 100*share(c.Policy.Right, c.Policy.Judged), c.Policy.Judged,
			100*share(c.Baseline.Right, c.Baseline.Judged), c.Baseline.Judged, c.Success.points())
	}
	if c.Failures != nil {
		text += fmt.Sprintf(" Reported as failed: %.1f %% of all %d runs, against %.1f %% of %d: %s.", 100*share(c.Policy.failures(), c.Policy.Runs), c.Policy.Runs,
			100*share(c.Baseline.failures(), c.Baseline.Runs), c.Baseline.Runs, c.Failures.points())
	}
	if harm != "" {
		text += " Warning: the policy " + harm + "."
	}
	return text
}

// points describes an interval of a difference of shares.
func (i *Interval) points() string {
	return fmt.Sprintf("%+.1f points (%+.1f to %+.1f)", 100*i.Estimate, 100*i.Low, 100*i.High)
}

func share(part, of int) float64 { return float64(part) / float64(of) }

// Pending says what a measurement of costs still lacks. It is empty once there is one.
func (c *Comparison) Pending() string {
	if min(c.Baseline.Runs, c.Policy.Runs) >= minRuns {
		return ""
	}
	return fmt.Sprintf("The holdout compares costs from %d runs of each kind on; it has %d by the policy and %d by the baseline.", minRuns, c.Policy.Runs, c.Baseline.Runs)
}

// Harm describes the significant harm that the policy does, or returns "".
func (c *Comparison) Harm() string {
	worse := ""
	switch {
	case c.Success != nil && c.Success.High < 0:
		worse = "fewer of its runs are right"
	case c.Failures != nil && c.Failures.Low > 0:
		worse = "more of its runs are reported as failed"
	}
	switch isDearer := c.Saved != nil && c.Saved.High < 0; {
	case isDearer && worse != "":
		return "costs more than the baseline, and " + worse
	case isDearer:
		return "costs more than the baseline"
	case worse != "":
		return "does harm: " + worse + " than the baseline's"
	}
	return ""
}
