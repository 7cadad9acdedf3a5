package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/internal/telemetry"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/router"
)

type workerFlags struct {
	queue, cache, name string
	work               map[string]int
	metrics            string
	grace              time.Duration
}

func newWorkerCommand(s Streams) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --queue URL",
		Short: "How do more machines help? Run jobs that swe, collect and serve put into a queue",
		Long: `Run jobs that swe, collect and serve put into a queue: tasks, calls and verifications. The
queue is a PostgreSQL database that any number of workers can share.

A worker needs what its jobs need: the plugins, the toolchains of the repositories, and
the providers' keys in its environment, under the names that the policies use.

Whoever can write to the database decides what workers run.`,
		Example: `  OPENAI_API_KEY=... stepfall worker --queue postgres://stepfall@db/stepfall`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "postgres:// URL of the queue; $"+storeVariable+" when absent")
	flags.StringVar(&f.cache, "cache", "", "folder for fetched files; in the user's cache folder when absent")
	flags.StringVar(&f.name, "name", "", "name of this worker in results; the machine's name when absent")
	flags.StringToIntVar(&f.work, "work", map[string]int{"swe": 2, "collect": 4, "verify": 2}, "concurrent tasks of swe, calls of collect and verifications; kinds not named are left to other workers")
	flags.StringVar(&f.metrics, "metrics", "", "address of /metrics, such as 127.0.0.1:9465; none when absent")
	flags.DurationVar(&f.grace, "grace", 30*time.Second, "how long running jobs may continue after an interrupt")
	return cmd
}

func (f *workerFlags) run(ctx context.Context, s Streams) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	logger := s.logger("stepfall", hclog.Info)
	shared, err := full.OpenStore(ctx, f.queue, logger)
	if err != nil {
		return fmt.Errorf("--queue: %w", err)
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	database, ok := shared.Engine.(*postgres.Store)
	if !ok {
		return usage("--queue: want a postgres:// URL; one machine needs no queue")
	}
	q, err := queue.Open(ctx, database.Pool())
	if err != nil {
		return err
	}
	signals, err := telemetry.Start(ctx, "stepfall-worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endTelemetry(ctx, signals)) }()
	cache := q.Cache(f.cache)
	routers := queue.NewRouterCache(cache, router.Options{Logger: logger, Store: shared, Traces: signals.Record, Transport: signals.Transport(nil)})
	defer func() { err = errors.Join(err, routers.Close()) }()
	tasks, done, err := f.taskWorker(ctx, routers, cache, shared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	ended, err := serveMetrics(f.metrics, s, signals, gaugesOf(shared, q, routers.Routers))
	if err != nil {
		return err
	}
	defer ended()
	return q.Work(ctx, queue.WorkerOptions{
		Name: f.name, Grace: f.grace, Logger: logger, Redact: routers.Redact,
		Kinds: map[string]queue.Kind{
			swe.QueueKind: tasks.Kind(f.work["swe"]), collect.QueueKind: collect.Kind(routers, cache, f.work["collect"]), queue.VerifyKind: routers.Verify(f.work["verify"]),
		},
		Ready: func(name string) { fmt.Fprintf(s.Out, "worker %s waits for work\n", name) },
	})
}

func (f *workerFlags) check() (err error) {
	if f.queue = cmp.Or(f.queue, os.Getenv(storeVariable)); f.queue == "" {
		return usage("--queue is required: the database with the jobs")
	}
	total := 0
	for kind, n := range f.work {
		if total += n; n < 0 || !slices.Contains([]string{"swe", "collect", "verify"}, kind) {
			return usage("--work %s=%d: want a number for swe, collect or verify, such as swe=2,verify=4", kind, n)
		}
	}
	if total == 0 {
		return usage("--work: want at least one kind of job above 0")
	}
	// Find an unwritable folder before any job is taken.
	if f.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return usage("--cache is required: %v", err)
		}
		f.cache = filepath.Join(base, "stepfall", "queue")
	}
	if f.cache, err = filepath.Abs(f.cache); err != nil {
		return err
	}
	if err := os.MkdirAll(f.cache, 0o700); err != nil {
		return fmt.Errorf("--cache: %w", err)
	}
	return nil
}

// taskWorker returns the worker for swe tasks; done cleans up.
func (f *workerFlags) taskWorker(ctx context.Context, routers *queue.RouterCache, cache *queue.Cache, shared *store.Shared) (tasks *swe.QueueWorker, done func() error, err error) {
	if f.work["swe"] == 0 {
		return &swe.QueueWorker{}, func() error { return nil }, nil
	}
	walls, err := swe.NewJail(ctx)
	if err != nil {
		return nil, nil, err
	}
	scratch, err := swe.NewScratch("")
	if err != nil {
		return nil, nil, err
	}
	tasks = &swe.QueueWorker{Routers: routers, Cache: cache, Accounts: shared.Leased, Jail: walls, Trees: filepath.Join(scratch.Dir, "trees")}
	return tasks, func() error { return errors.Join(tasks.Close(), scratch.Close()) }, nil
}
