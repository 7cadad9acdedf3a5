package policies

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// WatchOptions configures how a policy is watched. The zero value watches files and SIGHUP and logs
// nothing.
type WatchOptions struct {
	// Load configures how the policy is loaded, each time.
	Load LoadOptions
	// Accept, when not nil, is called with each new policy that loaded without errors, before it replaces the
	// old one; an error keeps the old one. It is the place to build what the policy needs. It is not called
	// for the first policy.
	Accept func(old, next *Policy) error
	// Interval is the time between checks of the files; a change is loaded once two successive checks find the
	// same content. 0 means 500 ms.
	Interval time.Duration
	// Logger receives what was loaded, and what was rejected and why; nil discards it.
	Logger Logger
}

// Logger is the interface of the Watcher's logger, implemented by *slog.Logger and hclog.Logger. The args of
// Info, Warn and Error are alternating keys and values.
type Logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}

// Watcher holds a policy and replaces it when its files change or SIGHUP arrives. A new policy that
// has errors, or that is not accepted, changes nothing. A step that began under the old policy continues
// with it. A Watcher is safe for concurrent use.
type Watcher struct {
	path    string
	o       WatchOptions
	current atomic.Pointer[Policy]
	hangup  chan os.Signal

	// mu is held while a policy is loaded and swapped in. latest is the policy that was loaded last, whether in
	// force or not, and latestSum the fingerprint of its files.
	mu        sync.Mutex
	latest    *Policy
	latestSum [sha256.Size]byte
}

// NewWatcher loads the policy at path; from then on, [Watcher.Run] reloads it when it changes. Its error
// is that of [Load]. The caller must run or close the Watcher.
func NewWatcher(path string, o WatchOptions) (*Watcher, error) {
	o.Interval = cmp.Or(o.Interval, 500*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{path: path, o: o, hangup: make(chan os.Signal, 1)}
	w.latest = &Policy{}
	p, err := w.load()
	if err != nil {
		return nil, err
	}
	w.current.Store(p)
	notifyHangup(w.hangup)
	return w, nil
}

// Close stops listening for SIGHUP. Run calls it itself.
func (w *Watcher) Close() { signal.Stop(w.hangup) }

// Policy returns the current policy.
func (w *Watcher) Policy() *Policy { return w.current.Load() }

// Reload loads the policy again and replaces the old one, which stays in force if there is an error.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reload()
}

// load loads the policy. The fingerprint of its files is taken first, so that no later change is missed.
func (w *Watcher) load() (*Policy, error) {
	for {
		files := w.files(w.latest)
		w.latestSum = fingerprint(files)
		next, err := Load(w.path, w.o.Load)
		if err != nil {
			return nil, err
		}
		w.latest = next
		if slices.Equal(w.files(next), files) {
			return next, nil
		}
	}
}

func (w *Watcher) reload() error {
	old := w.current.Load()
	next, err := w.load()
	if err == nil && w.o.Accept != nil {
		err = w.o.Accept(old, next)
	}
	if err != nil {
		w.o.Logger.Error("policy rejected, keeping the old one", "policy", w.path, "checksum", shortChecksum(old.Checksum), "error", old.Redact(err.Error()))
		return fmt.Errorf("reloading policy %s: %w", w.path, err)
	}
	w.current.Store(next)
	for _, d := range next.Warnings {
		w.o.Logger.Warn("policy", "policy", w.path, "warning", d.String())
	}
	w.o.Logger.Info("policy reloaded", "policy", w.path, "was", shortChecksum(old.Checksum), "is", shortChecksum(next.Checksum))
	return nil
}

// poll reloads the policy if the files differ from those loaded last and have not changed since the previous
// poll. It returns their fingerprint.
func (w *Watcher) poll(before [sha256.Size]byte) [sha256.Size]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := fingerprint(w.files(w.latest))
	if now != w.latestSum && now == before {
		_ = w.reload() // reload logs the error, and the old policy stays in force
	}
	return now
}

func shortChecksum(checksum string) string { return checksum[:min(12, len(checksum))] }

// Run reloads the policy when it changes, until ctx ends; then it closes the Watcher. It compares the content of
// the files, so it does not matter how editors and mounts replace them.
func (w *Watcher) Run(ctx context.Context) {
	defer w.Close()
	tick := time.NewTicker(w.o.Interval)
	defer tick.Stop()
	var before [sha256.Size]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.hangup:
			_ = w.Reload() // reload logs the error, and the old policy stays in force
		case <-tick.C:
			before = w.poll(before)
		}
	}
}

func (w *Watcher) files(p *Policy) []string {
	list := []string{w.path}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		list = append(filesOf(w.path), filepath.Join(w.path, "policy.hcl"))
	}
	list = slices.DeleteFunc(append(list, p.Files...), func(file string) bool { return strings.HasPrefix(file, libraryPrefix) })
	if p.Fit != nil && p.Fit.Profile != "" {
		list = append(list, p.Fit.Profile)
	}
	for i := range list {
		list[i] = filepath.Clean(list[i])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// maxWatched is the size above which a file is treated as unreadable. Profiles are the largest files.
const maxWatched = 64 << 20

func fingerprint(files []string) [sha256.Size]byte {
	sum := sha256.New()
	for _, file := range files {
		content, err := readRegular(file, file, maxWatched)
		fmt.Fprintf(sum, "%q %t %d\n", file, err == nil, len(content))
		sum.Write(content)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
