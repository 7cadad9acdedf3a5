package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/outcome"
)

type collectFlags struct {
	policy, tasks, out string
	sets               []string
	capUSD             float64
	parallel           int
	queue              string
	repeat             int
	agent, check       string
}

func newCollectCommand(s Streams) *cobra.Command {
	var f collectFlags
	cmd := &cobra.Command{
		Use:   "collect --policy FILE --tasks FILE --out FILE",
		Short: "How good is each model at my tasks? Run every model of a policy on sample tasks and record the outcomes",
		Long: `Run every model of a policy on sample tasks and record the outcomes.

A task is a line of JSON with query_id and prompt, and optionally group, system, labels,
work_dir, fail_to_pass, pass_to_pass and schema. The policy's verifiers judge every
answer. Outcomes are appended as they arrive, and a second run completes what is missing.
--cap limits the sum of what the outcomes in the file have cost and what this run spends.

With --agent, a program does each task, once with every model and then with the policy.
In its arguments, {task} is replaced by the prompt and {id} by the query_id. It reads the
address of its model from OPENAI_BASE_URL or ANTHROPIC_BASE_URL. The command of --check
gets the program's output on its standard input and judges the run by its exit code.
Steps and verdicts are written to NAME.traces.jsonl in the folder of --out. More:
docs/estimators-and-fit.md.`,
		Example: `  stepfall collect --policy policy.hcl --tasks tasks.jsonl --out outcomes.jsonl --cap 5`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.queue != "" && !cmd.Flags().Changed("parallel") {
				f.parallel = maxInQueue
			}
			return f.run(cmd.Context(), s)
		},
	}
	cmd.Flags().StringVar(&f.policy, "policy", "", "policy with the models and the verifiers")
	cmd.Flags().StringVar(&f.tasks, "tasks", "", "file of tasks, as JSON lines")
	cmd.Flags().StringVar(&f.out, "out", "", "file to append the outcomes to")
	cmd.Flags().StringArrayVar(&f.sets, "set", nil, "change a value of the policy, such as budget.step_usd=0.05")
	cmd.Flags().Float64Var(&f.capUSD, "cap", 0, "most to spend, in US dollars; 0 is no cap")
	cmd.Flags().IntVar(&f.parallel, "parallel", 4, "concurrent calls; with --queue, calls in the queue")
	cmd.Flags().IntVar(&f.repeat, "repeat", 0, "answers to request from every model, up to 8; 0 uses samples in the policy")
	cmd.Flags().StringVar(&f.agent, "agent", "", "program that does a task, such as 'python agent.py {task}'")
	cmd.Flags().StringVar(&f.check, "check", "", "with --agent, command that judges a finished run, such as 'python check.py {id}'")
	cmd.Flags().StringVar(&f.queue, "queue", "", queueUsage)
	for _, name := range []string{"policy", "tasks", "out"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // no such flag
		}
	}
	return cmd
}

func (f *collectFlags) run(ctx context.Context, s Streams) (err error) {
	if err := f.checkFlags(); err != nil {
		return err
	}
	policy, err := f.load()
	if err != nil {
		return err
	}
	tasks, err := collect.ReadTasks(f.tasks)
	if err != nil {
		return err
	}
	o := collect.Options{Policy: policy, Tasks: tasks, Out: f.out, CapUSD: f.capUSD, Parallel: f.parallel}
	rows := len(policy.Models)
	if f.agent != "" {
		traces := strings.TrimSuffix(f.out, filepath.Ext(f.out)) + ".traces.jsonl"
		o.Agent = &collect.Agent{Command: strings.Fields(f.agent), Check: strings.Fields(f.check), Traces: traces}
		rows++
	}
	forget := func() {}
	if f.queue != "" {
		jobs, begun, err := f.submit(ctx, s, &o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, jobs.close(ctx)) }()
		forget = begun
	}
	bar := showCollected(s, &o, len(tasks)*rows)
	sum, err := collect.Run(ctx, o)
	bar.finish()
	fmt.Fprintf(s.Out, "%d of %d outcomes: %d already recorded, %d new; %.6f USD spent\n",
		sum.Had+sum.New, sum.Total, sum.Had, sum.New, sum.SpentUSD)
	if err == nil && f.agent != "" && sum.Had+sum.New > 0 {
		if err := f.printComparison(s); err != nil {
			return err
		}
	}
	for _, fault := range sum.Faults {
		fmt.Fprintf(s.Out, "  %s\n", fault)
	}
	switch {
	case err != nil:
		return addResumeHint(ctx, err, "the outcomes so far are in %s; run the same command to continue", f.out)
	case sum.CapReached:
		return fmt.Errorf("the cap of %v USD is reached; raise --cap to continue", f.capUSD)
	case sum.Failed > 0:
		return fmt.Errorf("%d calls gave no outcome; run the same command to retry them", sum.Failed)
	}
	forget()
	return nil
}

func (f *collectFlags) checkFlags() error {
	switch {
	case f.capUSD < 0 || f.parallel < 1:
		return usage("--cap must not be negative and --parallel must be at least 1")
	case f.repeat < 0:
		return usage("--repeat must not be negative")
	case (f.agent == "") != (f.check == "") || f.agent != "" && (f.queue != "" || f.repeat > 0):
		return usage("--agent requires --check, and cannot be combined with --queue or --repeat")
	}
	return nil
}

// showCollected shows the progress of a collection, with costs and failures.
func showCollected(s Streams, o *collect.Options, outcomes int) *progress {
	bar := newProgress(s.Err, outcomes, "collecting")
	told := 0
	o.Progress = func(c collect.Summary) {
		bar.mu.Lock()
		ahead := c.Had + c.New + c.Failed - told
		told += max(0, ahead)
		bar.mu.Unlock()
		bar.describef("%s USD, %d failed", usd(c.SpentUSD), c.Failed)
		bar.add(max(0, ahead))
	}
	return bar
}

// load loads the policy and sets the samples of --repeat.
func (f *collectFlags) load() (*policies.Policy, error) {
	o := policies.LoadOptions{Sets: f.sets, WithoutProfile: true}
	policy, err := policies.Load(f.policy, o)
	if err != nil || f.repeat == 0 {
		return policy, err
	}
	for i := range policy.Models {
		if m := &policy.Models[i]; !m.SharesServers() {
			f.sets = append(f.sets, fmt.Sprintf("model[%q].samples=%d", m.Label(), f.repeat))
		}
	}
	o.Sets = f.sets
	return policies.Load(f.policy, o)
}

// submit sends the calls through a queue. The caller calls forget when the file is complete.
func (f *collectFlags) submit(ctx context.Context, s Streams, o *collect.Options) (jobs *submission, forget func(), err error) {
	if err := writable(f.out); err != nil {
		return nil, nil, err
	}
	id, spent, forget, err := collect.QueuedRun(f.out)
	if err != nil {
		return nil, nil, err
	}
	jobs, err = submit(ctx, f.queue, id, o.Policy, f.sets, queue.RunOptions{Warn: warnRarely(s)})
	if err != nil {
		return nil, nil, err
	}
	o.Queue = &collect.Job{Queue: jobs.queue, Policy: jobs.policy, Run: jobs.run}
	if f.capUSD > 0 {
		// A tiny cap lets the run itself report that nothing is left; 0 would mean no cap.
		o.Queue.CapUSD = max(f.capUSD-spent, 1e-9)
	}
	return jobs, forget, nil
}

// printComparison prints quality and cost of an agent's runs with each model and the policy.
func (f *collectFlags) printComparison(s Streams) error {
	table, err := outcome.Open(f.out, outcome.Options{})
	if err != nil {
		return err
	}
	table = table.Complete()
	quality, cost := table.MeanQualities(), table.MeanCosts()
	p := &printer{s.Out}
	p.f("on the %s that all completed:\n", count(len(table.Queries), "task"))
	tab := p.table(column{name: "model"}, column{"runs right %", true}, column{"USD per run", true})
	for m, name := range table.Models {
		tab.row(name, percent(quality[m]), dollars(cost[m]))
	}
	tab.print()
	return nil
}
