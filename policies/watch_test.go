//go:build unix

package policies_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepfall/stepfall/policies"
)

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// signalling sends each log record to a channel.
type signalling struct {
	slog.Handler
	records chan string
}

func (s signalling) Handle(ctx context.Context, r slog.Record) error {
	err := s.Handler.Handle(ctx, r)
	s.records <- r.Message
	return err
}

type watched struct {
	*policies.Watcher
	file    string
	log     lockedBuffer
	records chan string
}

func watch(t *testing.T, o policies.WatchOptions) *watched {
	t.Helper()
	w := &watched{file: filepath.Join(t.TempDir(), "policy.hcl"), records: make(chan string, 100)}
	w.write(t, sample)
	o.Load.Env = []string{"OPENAI_API_KEY=sk-planted-secret-0123456789"}
	o.Interval = 5 * time.Millisecond
	o.Logger = slog.New(signalling{slog.NewTextHandler(&w.log, nil), w.records})
	var err error
	if w.Watcher, err = policies.NewWatcher(w.file, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

// write replaces the policy as editors do: a new file is renamed over it.
func (w *watched) write(t *testing.T, text string) {
	t.Helper()
	tmp := w.file + ".tmp"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, w.file); err != nil {
		t.Fatal(err)
	}
}

// await waits for a log record.
func (w *watched) await(t *testing.T, message string) {
	t.Helper()
	for {
		select {
		case got := <-w.records:
			if got == message {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("no record %q; the log:\n%s", message, w.log.String())
		}
	}
}

const refused = "policy rejected, keeping the old one"

func TestWatcherSwapsAndRollsBack(t *testing.T) {
	w := watch(t, policies.WatchOptions{})
	before := w.Policy()

	w.write(t, strings.Replace(sample, "lambda = 0.5", "lambda = 0.7", 1))
	w.await(t, "policy reloaded")
	second := w.Policy()
	if second.Strategy.Lambda[0] != 0.7 {
		t.Errorf("lambda = %v after the change", second.Strategy.Lambda)
	}
	if before.Strategy.Lambda[0] != 0.5 {
		t.Errorf("the policy that a step started with has changed")
	}

	w.write(t, strings.Replace(sample, "lambda = 0.5", `lambda = "sk-planted-secret-0123456789"`, 1))
	w.await(t, refused)
	if w.Policy() != second {
		t.Error("a bad policy took the place of a good one")
	}
	if log := w.log.String(); !strings.Contains(log, "lambda takes a number") || strings.Contains(log, "planted") {
		t.Errorf("log:\n%s", log)
	}

	w.write(t, strings.Replace(sample, "lambda = 0.5", "lambda = 0.9", 1))
	w.await(t, "policy reloaded")
	if got := w.Policy().Strategy.Lambda[0]; got != 0.9 {
		t.Errorf("lambda = %v after the repair", got)
	}
}

func TestWatcherKeepsThePolicyThatIsNotAccepted(t *testing.T) {
	w := watch(t, policies.WatchOptions{Accept: func(_, _ *policies.Policy) error { return errors.New("no such plugin") }})
	before := w.Policy()
	w.write(t, strings.Replace(sample, "lambda = 0.5", "lambda = 0.7", 1))
	w.await(t, refused)
	if w.Policy() != before {
		t.Error("the policy was swapped in")
	}
}

func TestWatcherReloadsOnHangup(t *testing.T) {
	w := watch(t, policies.WatchOptions{})
	before := w.Policy()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.await(t, "policy reloaded")
	if w.Policy() == before || w.Policy().Checksum != before.Checksum {
		t.Error("want a new policy that says the same")
	}
}

// A policy that was rejected because of an included file is tried again when that file changes.
func TestWatcherFollowsTheFilesOfARefusedPolicy(t *testing.T) {
	w := watch(t, policies.WatchOptions{Accept: func(_, next *policies.Policy) error {
		if next.Budget.RunUSD == 10 {
			return errors.New("too much")
		}
		return nil
	}})
	included := filepath.Join(filepath.Dir(w.file), "shared", "budget.hcl")
	if err := os.Mkdir(filepath.Dir(included), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(included, []byte("budget {\n  run_usd = 10\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write(t, fmt.Sprintf("include = [%q]\n%s", included, sample))
	w.await(t, refused)
	if err := os.WriteFile(included, []byte("budget {\n  run_usd = 5\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.await(t, "policy reloaded")
	if got := w.Policy().Budget.RunUSD; got != 5 {
		t.Errorf("run_usd = %v", got)
	}
}

func TestWatcherIsReadWhileItChanges(t *testing.T) {
	w := watch(t, policies.WatchOptions{})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if p := w.Policy(); len(p.Models) != 1 || len(p.Strategy.Lambda) != 1 {
						t.Errorf("half a policy: %+v", p.Strategy)
						return
					}
				}
			}
		})
	}
	for range 20 {
		if err := w.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// A policy that would stop or block the process is rejected like any other faulty one.
func TestAttackPolicyWatched(t *testing.T) {
	w := watch(t, policies.WatchOptions{})
	old := w.Policy()
	for name, spoil := range map[string]func() error{
		"nested": func() error { return os.WriteFile(w.file, []byte("a = "+strings.Repeat("(", 100_000)), 0o600) },
		"laughs": func() error {
			return os.WriteFile(w.file, []byte(doubling("[local.%[1]s, local.%[1]s]", "[]", 60)), 0o600)
		},
		"pipe":   func() error { return errors.Join(os.Remove(w.file), syscall.Mkfifo(w.file, 0o600)) },
		"folder": func() error { return errors.Join(os.Remove(w.file), os.Mkdir(w.file, 0o700)) },
		"device": func() error { return errors.Join(os.Remove(w.file), os.Symlink("/dev/zero", w.file)) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			if err := w.Reload(); err == nil || w.Policy() != old {
				t.Errorf("err = %v, the old policy in force: %t", err, w.Policy() == old)
			}
			if err := os.RemoveAll(w.file); err != nil {
				t.Fatal(err)
			}
			w.write(t, sample)
			if err := w.Reload(); err != nil {
				t.Fatal(err)
			}
			old = w.Policy()
		})
	}
}
