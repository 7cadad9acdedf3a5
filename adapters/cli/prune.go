package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/policies"
)

type pruneFlags struct {
	store, policy, older string
}

func newPruneCommand(s Streams) *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "What can a store do without? Delete old traces, accounts, conversations and jobs from a store",
		Long: `Delete traces, accounts, conversations and jobs that are older than the policy's retention
block allows, in small batches, while other processes use the store. "stepfall serve" does
the same by itself. Daily sums stay, and so does what a cap may still depend on. A run that
continues after its account was deleted starts with its whole cap again.`,
		Example: `  stepfall prune --store fleet.db --policy policy.hcl
  stepfall prune --store fleet.db --older 720h`,
		Args: cobra.NoArgs, Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.prune(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.store, "store", "", storeUsage)
	flags.StringVar(&f.policy, "policy", "", "policy with a retention block")
	flags.StringVar(&f.older, "older", "", "delete everything older than this, such as 720h, instead of --policy")
	return cmd
}

func (f *pruneFlags) keep() (*policies.Retention, error) {
	if (f.older == "") == (f.policy == "") {
		return nil, usage("give either --policy or --older")
	}
	if f.older != "" {
		older, err := time.ParseDuration(f.older)
		if err != nil || older <= 0 {
			return nil, usage("--older %s: want hours, minutes or seconds, such as 720h for thirty days", f.older)
		}
		return &policies.Retention{Traces: older, Accounts: older, Sessions: older, Jobs: older}, nil
	}
	p, err := policies.Load(f.policy, policies.LoadOptions{WithoutSecrets: true})
	if err == nil && p.Retention == nil {
		err = fmt.Errorf("%s has no retention block, so nothing may be deleted", f.policy)
	}
	if err != nil {
		return nil, err
	}
	return p.Retention, nil
}

func (f *pruneFlags) prune(ctx context.Context, s Streams) (err error) {
	keep, err := f.keep()
	if err != nil {
		return err
	}
	address := cmp.Or(f.store, os.Getenv(storeVariable))
	if address == "" {
		return usage("--store is required, or %s", storeVariable)
	}
	if err := checkStore(address); err != nil {
		return err
	}
	shared, err := full.OpenStore(ctx, address, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	var pruned struct {
		store.PruneCounts

		Runs int64 `json:"runs"`
	}
	pruned.PruneCounts, err = store.PruneAll(ctx, shared.Store, store.Retention{Traces: keep.Traces, Accounts: keep.Accounts, Sessions: keep.Sessions})
	if err != nil {
		return err
	}
	if pruned.Runs, err = pruneJobs(ctx, shared, keep.Jobs); err != nil {
		return err
	}
	return s.render(pruned, func(p *printer) {
		p.f("deleted %s, %s, %s and %s\n", count(int(pruned.Traces), "trace"), count(int(pruned.Accounts), "account"),
			count(int(pruned.Sessions), "conversation"), count(int(pruned.Runs), "job"))
	})
}

// pruneJobs deletes the runs of the queue that ended more than keep ago, if the store is a database with a queue.
func pruneJobs(ctx context.Context, shared *store.Shared, keep time.Duration) (int64, error) {
	database, ok := shared.Engine.(*postgres.Store)
	if !ok || keep <= 0 {
		return 0, nil
	}
	q, err := queue.Open(ctx, database.Pool())
	if err != nil {
		return 0, err
	}
	return q.Prune(ctx, keep)
}
