package agents

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Page writes the results of the roads; the first row is the one that the others are compared with.
func (b *Bench) Page(ctx context.Context, w io.Writer, rows []*Row) error {
	rates, err := b.errorRates(ctx)
	if err != nil {
		return err
	}
	var p strings.Builder
	tasks := len(b.Agents[0].Tasks) - learn
	fmt.Fprintf(&p, "# Agents with tools\n\nWritten by `make agents`. Three agents do %d tasks each, by every road that the documentation shows, and what they did is compared with the truth, which is computed: "+
		"an order desk, an agent that asks a SQLite database, and one that works on files by a shell in the jail. A run takes three to ten turns, and is right or wrong as a whole. "+
		"Roads that learn do so on %d other tasks of each agent, whose cost is not in the table.\n\n", tasks, learn)
	p.WriteString("| road | runs right | beside always large, points | cost of always large | calls a step | seconds a run |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	base := rows[0]
	for _, r := range rows {
		p.WriteString("| " + r.line(base) + " |\n")
	}
	p.WriteString("\nIntervals are of 95 %, from a bootstrap over tasks, paired. Seconds are those that the models below are given for an answer; of calls at the same time the longer one counts.\n\n" +
		"By agent, runs right and cost of always large:\n\n| road |")
	for _, a := range b.Agents {
		p.WriteString(" " + a.Name + " |")
	}
	p.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(b.Agents)) + "\n")
	for _, r := range rows {
		if r.Refused != "" {
			continue
		}
		p.WriteString("| " + r.Road.Name + " |")
		for i := range b.Agents {
			part := &Row{Runs: r.Runs[i*tasks : (i+1)*tasks]}
			_, cost := part.Against(&Row{Runs: base.Runs[i*tasks : (i+1)*tasks]})
			fmt.Fprintf(&p, " %.1f %%, %.0f %% |", 100*part.Success(), cost.Mean)
		}
		p.WriteString("\n")
	}
	p.WriteString("\n## The models\n\n")
	fmt.Fprintf(&p, "They are scripted: what befalls a model in a step depends on the step alone. It errs where the step is harder than its skill. Of the variance of difficulty, %.0f %% are the task's, "+
		"%.0f %% the step's for all models, %.0f %% the maker's and %.0f %% the model's own, so that what is hard for one is hard for the others. Who errs makes one of the moves that are usual for the step "+
		"(another order, the whole price in place of the price less the fee, a condition left out); in %.0f %% of the steps all make the same one, in the others each maker has its own. "+
		"Of several right moves (another order of conditions, `grep -c` or `wc -l`) all take the same in %.0f %% of the steps. A judging model finds a right step right in %.0f %%, and a wrong one wrong in %.0f %%, each time that it is asked. "+
		"How often each errs, by kind of step, where the run was right so far:\n\n| model | USD per million tokens, in and out |",
		100*ofTask, 100*ofStep, 100*ofMaker, 100*ofModel, 100*lure, 100*inOneVoice, 100*judgesRight, 100*judgesWrong)
	for k := range kinds {
		p.WriteString(" " + k.String() + " |")
	}
	p.WriteString("\n| --- | ---: |" + strings.Repeat(" ---: |", int(kinds)) + "\n")
	prices, err := pricesOf(Models)
	if err != nil {
		return err
	}
	for m := range Models {
		fmt.Fprintf(&p, "| %s | %s |", Models[m].Served, prices[m])
		for _, rate := range rates[m] {
			fmt.Fprintf(&p, " %.1f %% |", 100*rate)
		}
		p.WriteString("\n")
	}
	_, err = io.WriteString(w, p.String())
	return err
}

// line returns a row's cells.
func (r *Row) line(base *Row) string {
	name := r.Road.Name
	if r.Refused != "" {
		return name + " | refused: " + strings.ReplaceAll(r.Refused, "\n", " ") + " | - | - | - | -"
	}
	points, cost := r.Against(base)
	calls, steps := mean(r.Runs, func(x Run) float64 { return float64(x.Calls) }), mean(r.Runs, func(x Run) float64 { return float64(x.Steps) })
	beside := fmt.Sprintf("%+.1f (%.1f to %.1f)", points.Mean, points.Low, points.High)
	share := fmt.Sprintf("%.0f %% (%.0f to %.0f)", cost.Mean, cost.Low, cost.High)
	if r == base {
		beside, share = "-", fmt.Sprintf("100 %%: %.4f USD a run", mean(r.Runs, func(x Run) float64 { return x.USD }))
	}
	return fmt.Sprintf("%s | %.1f %% | %s | %s | %.2f | %.1f", name, 100*r.Success(), beside, share, calls/steps, mean(r.Runs, func(x Run) float64 { return x.Seconds }))
}
