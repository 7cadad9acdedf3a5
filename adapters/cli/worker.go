package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/otel"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/adapters/swe"
)

type workerFlags struct {
	queue, cache, name  string
	swe, collect        int
	verify              int
	metrics             string
	grace               time.Duration
	logFormat, logLevel string
}

func newWorkerCommand(s Streams) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker --queue URL",
		Short: "Do what swe, collect and serve put into a queue, on this machine",
		Long: `Do what swe, collect and serve put into a queue, on this machine: tasks, calls and
verifications. Any number of workers may share a queue, which is a PostgreSQL database.

A worker needs what the work needs: the plugins, the toolchains of the repositories, and
the providers' keys in its environment, under the names that the policies use. Policies,
inputs and repositories are sent to it through the queue, or fetched by git.

The work of a worker that is lost is taken up by others. On an interrupt no further work
is begun; what is at work may go on for --grace, and then is left to others.

Who can write to the database decides what workers run.`,
		Example: `  OPENAI_API_KEY=... stepfall worker --queue postgres://stepfall@db/stepfall`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "postgres:// URL of the queue; $"+storeVariable+" when absent")
	flags.StringVar(&f.cache, "cache", "", "folder for what is fetched; one of the user's when absent")
	flags.StringVar(&f.name, "name", "", "what results call this worker; the machine's name when absent")
	flags.IntVar(&f.swe, "swe", 2, "tasks at work at once; 0 leaves them to others")
	flags.IntVar(&f.collect, "collect", 4, "calls for collections at work at once")
	flags.IntVar(&f.verify, "verify", 2, "verifications at work at once")
	flags.StringVar(&f.metrics, "metrics", "", "address of /metrics, as 127.0.0.1:9465; none when absent")
	flags.DurationVar(&f.grace, "grace", 30*time.Second, "how long work may go on after an interrupt")
	flags.StringVar(&f.logFormat, "log-format", "text", "how the log is written: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "least level that is logged: debug, info (each job), warn or error")
	return cmd
}

func (f *workerFlags) run(ctx context.Context, s Streams) (err error) {
	if f.queue == "" {
		f.queue = os.Getenv(storeVariable)
	}
	level := hclog.LevelFromString(f.logLevel)
	switch {
	case f.queue == "":
		return usage("--queue is needed: the database that work comes from")
	case f.swe < 0 || f.collect < 0 || f.verify < 0 || f.swe+f.collect+f.verify == 0:
		return usage("--swe, --collect and --verify say how much is at work at once, and one of them is more than 0")
	case level == hclog.NoLevel || (f.logFormat != "text" && f.logFormat != "json"):
		return usage("--log-level wants debug, info, warn or error, and --log-format text or json")
	}
	logger := hclog.New(&hclog.LoggerOptions{Name: "stepfall", Output: s.Err, Level: level, JSONFormat: f.logFormat == "json"})
	if f.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return usage("--cache is needed: %v", err)
		}
		f.cache = filepath.Join(base, "stepfall", "queue")
	}
	if f.cache, err = filepath.Abs(f.cache); err != nil {
		return err
	}
	// What cannot be written to is found before work is taken.
	if err := os.MkdirAll(f.cache, 0o700); err != nil {
		return fmt.Errorf("--cache: %w", err)
	}
	shared, err := full.OpenStore(ctx, f.queue, logger)
	if err != nil {
		return fmt.Errorf("--queue: %w", err)
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	database, ok := shared.Engine.(*postgres.Store)
	if !ok {
		return usage("--queue wants a postgres:// URL; work on one machine needs no queue")
	}
	q, err := queue.Open(ctx, database.Pool())
	if err != nil {
		return err
	}
	telemetry, err := otel.Start(ctx, "stepfall-worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endTelemetry(ctx, telemetry)) }()
	cache := q.Cache(f.cache)
	routers := queue.NewRouterCache(cache, router.Options{Logger: logger, Store: shared, Traces: telemetry.Record, Transport: telemetry.Transport(nil)})
	defer func() { err = errors.Join(err, routers.Close()) }()
	hands, done, err := f.hands(ctx, routers, cache, shared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	ended, err := serveMetrics(f.metrics, s, telemetry, gaugesOf(shared, q, routers.Routers))
	if err != nil {
		return err
	}
	defer ended()
	return q.Work(ctx, queue.WorkerOptions{
		Name: f.name, Grace: f.grace, Logger: logger, Redact: routers.Redact,
		Kinds: map[string]queue.Kind{
			swe.QueueKind: hands.Kind(f.swe), collect.QueueKind: collect.Kind(routers, cache, f.collect), queue.VerifyKind: routers.Verify(f.verify),
		},
		Ready: func(name string) { fmt.Fprintf(s.Out, "worker %s waits for work\n", name) },
	})
}

// hands are those that do tasks; done removes what they leave.
func (f *workerFlags) hands(ctx context.Context, routers *queue.RouterCache, cache *queue.Cache, shared *store.Shared) (hands *swe.QueueWorker, done func() error, err error) {
	if f.swe == 0 {
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
	hands = &swe.QueueWorker{Routers: routers, Cache: cache, Accounts: shared.Leased, Jail: walls, Trees: filepath.Join(scratch.Dir, "trees")}
	return hands, func() error { return errors.Join(hands.Close(), scratch.Close()) }, nil
}
