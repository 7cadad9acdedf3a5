package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/sdk/redact"
)

// server is shared by the tests that do not stop it; each has a database of its own.
var server = pgtest.Server{Options: []string{"fsync=off"}}

func TestMain(m *testing.M) { server.Main(m) }

// hasty is the default timing at ten times the speed or more.
func hasty() timing {
	u := defaultTiming()
	return timing{u.beat / 20, u.fence / 10, u.workerTimeout / 10, u.submitterTimeout / 10, u.keep, u.poll / 10, u.firstRetry / 40}
}

func opened(t testing.TB, url string) *Queue {
	t.Helper()
	s, err := postgres.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	q, err := Open(context.Background(), s.Pool())
	if err != nil {
		t.Fatal(err)
	}
	q.t = hasty()
	return q
}

// begun starts a run that ends with the test.
func begun(t testing.TB, q *Queue, id string, o RunOptions) *Run {
	t.Helper()
	r, err := q.Begin(t.Context(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

// working starts a worker; stop ends it and waits for it.
func working(t testing.TB, q *Queue, do func(context.Context, *Job) (Outcome, error)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		err := q.Work(ctx, WorkerOptions{Name: "w", Kinds: map[string]Kind{"k": {Parallel: 4, Poll: 20 * time.Millisecond, Do: do}}})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

func echo(_ context.Context, j *Job) (Outcome, error) {
	var n int
	err := j.Decode(&n)
	return Outcome{Output: 2 * n}, err
}

func double(t testing.TB, r *Run, n int) *Done {
	t.Helper()
	done, err := r.Do(t.Context(), Ticket{Kind: "k", Name: fmt.Sprint(n), Args: n})
	if err != nil {
		t.Error(err)
		return &Done{}
	}
	var got int
	if err := done.Decode(&got); err != nil || got != 2*n {
		t.Errorf("job %d gives %d, %v", n, got, err)
	}
	return done
}

func TestJobs(t *testing.T) {
	jobs(t, opened(t, server.Database(t)))
}

// TestJobsBehindAPooler does the same where each transaction has another connection.
func TestJobsBehindAPooler(t *testing.T) {
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		t.Skip("STEPFALL_ATTACKS is not all: TestJobs asks the same without a pooler")
	}
	c := pgtest.Start(t, "fsync=off")
	pooled := c.Pooler(t)
	jobs(t, opened(t, c.Database(t)+pooled))
}

func jobs(t *testing.T, q *Queue) {
	t.Helper()

	t.Run("many", func(t *testing.T) {
		stop := working(t, q, echo)
		defer stop()
		r := begun(t, q, "many", RunOptions{})
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				if done := double(t, r, i); !strings.HasPrefix(done.Worker, "w-") {
					t.Errorf("done by %q", done.Worker)
				}
			})
		}
		wg.Wait()
	})

	t.Run("what failed is tried again", func(t *testing.T) {
		stop := working(t, q, func(ctx context.Context, j *Job) (Outcome, error) {
			if j.Try < 3 {
				return Outcome{}, errors.New("not yet")
			}
			return echo(ctx, j)
		})
		defer stop()
		double(t, begun(t, q, "again", RunOptions{}), 7)
	})

	t.Run("errors hold no keys", func(t *testing.T) {
		const key, shaped = "correct horse battery", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
		for name, do := range map[string]func(context.Context, *Job) (Outcome, error){
			"error": func(context.Context, *Job) (Outcome, error) {
				return Outcome{}, fmt.Errorf("401: wrong key %s, %s", key, shaped)
			},
			"panic": func(context.Context, *Job) (Outcome, error) { panic("wrong key " + key + ", " + shaped) },
		} {
			t.Run(name, func(t *testing.T) {
				q.t.firstRetry = time.Millisecond
				t.Cleanup(func() { q.t = hasty() }) // when the run, which reads it, is closed
				var log bytes.Buffer
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				wg.Go(func() {
					_ = q.Work(ctx, WorkerOptions{
						Kinds:  map[string]Kind{"k": {Parallel: 1, Poll: 20 * time.Millisecond, Do: do}},
						Logger: hclog.New(&hclog.LoggerOptions{Output: &log}), Redact: redact.New(key).Text,
					})
				})
				_, err := begun(t, q, "keys "+name, RunOptions{}).Do(t.Context(), Ticket{Kind: "k", Name: "1", Args: 1})
				cancel()
				wg.Wait()
				var kept string
				if err := q.pool.QueryRow(t.Context(), "SELECT string_agg(j::text, ' ') FROM "+schema+".river_job j").Scan(&kept); err != nil {
					t.Fatal(err)
				}
				for where, text := range map[string]string{"the submitter's error": fmt.Sprint(err), "the log": log.String(), "the queue's table": kept} {
					if !strings.Contains(text, "wrong key") || strings.Contains(text, "horse") || strings.Contains(text, "abcdefghij") {
						t.Errorf("%s: %s", where, text)
					}
				}
			})
		}
	})

	t.Run("what fails for ever is given up", func(t *testing.T) {
		q.t.firstRetry = time.Millisecond
		t.Cleanup(func() { q.t = hasty() }) // when worker and run, which read it, have ended
		stop := working(t, q, func(context.Context, *Job) (Outcome, error) { return Outcome{}, errors.New("broken pipe") })
		defer stop()
		_, err := begun(t, q, "never", RunOptions{}).Do(t.Context(), Ticket{Kind: "k", Name: "1", Args: 1})
		failed, ok := errors.AsType[*FailedError](err)
		if !ok || failed.Tries != maxAttempts || !strings.Contains(failed.Last, "broken pipe") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("bytes", func(t *testing.T) {
		stop := working(t, q, func(_ context.Context, j *Job) (Outcome, error) {
			var text string
			err := j.Decode(&text)
			return Outcome{Output: text + "\x00"}, err
		})
		defer stop()
		done, err := begun(t, q, "bytes", RunOptions{}).Do(t.Context(), Ticket{Kind: "k", Name: "nul", Args: "a\x00'\"\\"})
		var got string
		if err == nil {
			err = done.Decode(&got)
		}
		if err != nil || got != "a\x00'\"\\\x00" {
			t.Errorf("got %q, %v", got, err)
		}
	})

	t.Run("nobody waits", func(t *testing.T) {
		begin, cause := make(chan bool, 8), make(chan error, 8)
		stop := working(t, q, func(ctx context.Context, _ *Job) (Outcome, error) {
			begin <- true
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return Outcome{}, ctx.Err()
		})
		defer stop()
		r := begun(t, q, "left", RunOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.Do(ctx, Ticket{Kind: "k", Name: "1", Args: 1}) })
		<-begin
		cancel()
		wg.Wait()
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-cause; !errors.Is(err, ErrNotWaitedFor) {
			t.Errorf("ended by %v", err)
		}
	})

	t.Run("counts", func(t *testing.T) {
		r := begun(t, q, "counts", RunOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before, err := q.Counts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { r.Do(ctx, Ticket{Kind: "k", Name: "1", Args: 1}) })
		for after := before; after["available"] != before["available"]+1; {
			if after, err = q.Counts(ctx); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		wg.Wait()
	})
}

// TestWorkersThatAreLost: the job of a lost worker is taken over by another one, which reads what the first has
// finished.
func TestWorkersThatAreLost(t *testing.T) {
	database := server.Database(t)
	q := opened(t, database)

	// The first worker stops to be heard of in the middle of its job, as if it were
	// killed: its connections are closed under it.
	s, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	first, err := Open(t.Context(), s.Pool())
	if err != nil {
		t.Fatal(err)
	}
	first.t = hasty()
	var ended atomic.Bool
	stuck := make(chan bool)
	stopFirst := working(t, first, func(ctx context.Context, j *Job) (Outcome, error) {
		if err := j.Record(ctx, []byte("half")); err != nil {
			return Outcome{}, err
		}
		close(stuck)
		<-ctx.Done()
		ended.Store(errors.Is(context.Cause(ctx), errLost))
		return Outcome{}, ctx.Err()
	})
	var heard []string
	r := begun(t, q, "run", RunOptions{OnRecord: func(rec Record) { heard = append(heard, string(rec.Data)) }})
	result := make(chan *Done)
	go func() { result <- double(t, r, 21) }()
	<-stuck
	s.Pool().Close()

	stop := working(t, q, func(ctx context.Context, j *Job) (Outcome, error) {
		list, err := j.Records(ctx)
		if err != nil || len(list) != 1 || string(list[0].Data) != "half" {
			t.Errorf("the records are %v, %v", list, err)
		}
		if !ended.Load() {
			t.Error("another has the job while the first works on it")
		}
		if j.Try != 2 {
			t.Errorf("try %d", j.Try)
		}
		return echo(ctx, j)
	})
	defer stop()
	<-result
	if len(heard) != 1 || heard[0] != "half" {
		t.Errorf("heard %v", heard)
	}
	stopFirst()
	s.Close()
}

// TestARunThatIsBegunAgain: a resumed run has the results that arrived meanwhile, and retries failed jobs.
func TestARunThatIsBegunAgain(t *testing.T) {
	q := opened(t, server.Database(t))
	var calls atomic.Int64
	stop := working(t, q, func(ctx context.Context, j *Job) (Outcome, error) {
		calls.Add(1)
		if err := j.Record(ctx, []byte("note")); err != nil {
			return Outcome{}, err
		}
		out, err := echo(ctx, j)
		out.Again = j.Name == "2" && calls.Load() < 3
		return out, err
	})
	defer stop()
	known := map[int64]bool{}
	heard := 0
	o := RunOptions{Known: known, OnRecord: func(rec Record) { known[rec.N] = true; heard++ }}
	r := begun(t, q, "run", o)
	double(t, r, 1)
	double(t, r, 2)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = begun(t, q, "run", o)
	if !double(t, r, 1).Recorded || double(t, r, 2).Recorded {
		t.Error("the wrong one was done again")
	}
	if calls.Load() != 3 || heard != 3 {
		t.Errorf("%d calls, %d notes heard", calls.Load(), heard)
	}
}

// TestAQueueWhoseDatabaseIsAway: submitter and worker wait for an unavailable database.
func TestAQueueWhoseDatabaseIsAway(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	q := opened(t, c.Database(t))
	go1 := make(chan bool)
	stop := working(t, q, func(ctx context.Context, j *Job) (Outcome, error) {
		go1 <- true
		<-go1
		return echo(ctx, j)
	})
	defer stop()
	warned := make(chan string, 100)
	r := begun(t, q, "run", RunOptions{Warn: func(text string) {
		select {
		case warned <- text:
		default:
		}
	}})
	result := make(chan *Done)
	go func() { result <- double(t, r, 3) }()
	<-go1
	if err := c.Down(3); err != nil {
		t.Fatal(err)
	}
	for text := range warned {
		if strings.Contains(text, "cannot be reached") {
			break
		}
	}
	if err := c.Up(); err != nil {
		t.Fatal(err)
	}
	go1 <- true
	for done := false; !done; {
		select {
		case <-go1: // where the worker was cut off for too long, it is done again
			go1 <- true
		case <-result:
			done = true
		}
	}
}

func TestQueuesThatAreOpenedTogether(t *testing.T) {
	url := server.Database(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			pool, err := pgxpool.New(t.Context(), url)
			if err != nil {
				t.Error(err)
				return
			}
			defer pool.Close()
			if _, err := Open(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	q := opened(t, url)
	rows, err := q.pool.Query(t.Context(), "SELECT count(*) FROM stepfall_queue.river_migration")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pgx.CollectOneRow(rows, pgx.RowTo[int]); err != nil || n == 0 {
		t.Errorf("%d migrations, %v", n, err)
	}
}

// TestNobodyWorks: a submitter is warned if no worker is running.
func TestNobodyWorks(t *testing.T) {
	q := opened(t, server.Database(t))
	warned := make(chan string, 100)
	r := begun(t, q, "run", RunOptions{Warn: func(text string) {
		select {
		case warned <- text:
		default:
		}
	}})
	result := make(chan *Done)
	go func() { result <- double(t, r, 4) }()
	if text := <-warned; !strings.Contains(text, "no worker is running") {
		t.Errorf("warned: %s", text)
	}
	stop := working(t, q, echo)
	defer stop()
	<-result
}

// TestWhatIsKept: results are kept as long as their run, and those of transient jobs until they are delivered.
func TestWhatIsKept(t *testing.T) {
	q := opened(t, server.Database(t))
	stop := working(t, q, echo)
	defer stop()
	rows := func() (n int) {
		if err := q.pool.QueryRow(t.Context(), "SELECT count(*) FROM stepfall_queue.river_job").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := begun(t, q, "run", RunOptions{})
	double(t, r, 1)
	if _, err := r.Do(t.Context(), Ticket{Kind: "k", Name: "2", Args: 2, Transient: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 1 {
		t.Errorf("%d jobs, of which one was to be kept", n)
	}
	if n, err := q.Prune(t.Context(), time.Hour); err != nil || n != 0 || rows() != 1 {
		t.Errorf("%d runs were deleted before their time, %d jobs are left: %v", n, rows(), err)
	}
	if n, err := q.Prune(t.Context(), 0); err != nil || n != 1 || rows() != 0 {
		t.Errorf("%d runs were deleted, %d jobs are left: %v", n, rows(), err)
	}
}

// TestResultsThatArriveMeanwhile: a job that ends after its submitter left and the next one began is not repeated.
func TestResultsThatArriveMeanwhile(t *testing.T) {
	q := opened(t, server.Database(t))
	var calls atomic.Int64
	begin, end := make(chan bool), make(chan bool)
	stop := working(t, q, func(ctx context.Context, j *Job) (Outcome, error) {
		calls.Add(1)
		begin <- true
		<-end
		return echo(ctx, j)
	})
	defer stop()
	first := begun(t, q, "run", RunOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { first.Do(ctx, Ticket{Kind: "k", Name: "5", Args: 5}) })
	<-begin
	second := begun(t, q, "run", RunOptions{})
	cancel()
	wg.Wait()
	end <- true
	for open := true; open; {
		if err := q.pool.QueryRow(t.Context(), "SELECT count(*) > 0 FROM stepfall_queue.river_job WHERE finalized_at IS NULL").Scan(&open); err != nil {
			t.Fatal(err)
		}
	}
	if done := double(t, second, 5); !done.Recorded || calls.Load() != 1 {
		t.Errorf("recorded: %v, done %d times", done.Recorded, calls.Load())
	}
}

// TestGrace: jobs that continue after an interrupt still belong to the worker.
func TestGrace(t *testing.T) {
	q := opened(t, server.Database(t))
	begin := make(chan bool, 8)
	ctx, interrupt := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = q.Work(ctx, WorkerOptions{Name: "w", Grace: time.Minute, Kinds: map[string]Kind{"k": {Parallel: 1, Do: func(ctx context.Context, j *Job) (Outcome, error) {
			begin <- true
			if !pause(ctx, 2*q.t.workerTimeout) {
				return Outcome{}, context.Cause(ctx)
			}
			return echo(ctx, j)
		}}}})
	})
	r := begun(t, q, "run", RunOptions{})
	wg.Go(func() { double(t, r, 6) })
	<-begin
	interrupt()
	other := working(t, q, func(context.Context, *Job) (Outcome, error) {
		t.Error("another worker has the job during the grace")
		return Outcome{}, nil
	})
	wg.Wait()
	other()
}
