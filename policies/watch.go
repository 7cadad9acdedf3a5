package policies

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions says how a policy is watched. The zero value watches files and
// SIGHUP and logs nothing.
type WatchOptions struct {
	// Load says how the policy is loaded, each time anew.
	Load LoadOptions
	// Accept, when not nil, gets a policy that was loaded without errors, before it
	// takes the place of the old one; an error keeps the old one. It is where the
	// caller builds what the policy needs. It is not called for the first policy.
	Accept func(old, next *Policy) error
	// Settle is how long files must be quiet before they are read; 0 is 100 ms.
	Settle time.Duration
	// Logger hears what was loaded and what was refused, and why; nil is silence.
	Logger Logger
}

// Logger is what a Watcher writes to: a *slog.Logger and an hclog.Logger are Loggers.
// The args of Info, Warn and Error are keys and values in turn.
type Logger interface {
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}

type silence struct{}

func (silence) Info(string, ...any)  {}
func (silence) Warn(string, ...any)  {}
func (silence) Error(string, ...any) {}

// Watcher holds a policy and swaps it for a new one when its files change or
// SIGHUP arrives. A new policy that has errors, or that is not accepted, changes
// nothing. Who took a policy before the swap goes on with it: a step finishes
// under the policy that it started with. It is safe for concurrent use.
type Watcher struct {
	path    string
	o       WatchOptions
	current atomic.Pointer[Policy]
	fs      *fsnotify.Watcher
	hangup  chan os.Signal
	// followed are the files whose folders are watched. Run's alone.
	followed []string

	// mu is held while a policy is loaded and swapped in. read is the last policy that
	// was loaded, in force or not, and seen what its files held.
	mu   sync.Mutex
	read *Policy
	seen [sha256.Size]byte
}

// longestSettle is how many times Settle a change waits for quiet at most.
const longestSettle = 10

// NewWatcher loads the policy at path and watches it from then on; [Watcher.Run]
// acts on what it sees. Its error is that of [Load], or says why nothing can be
// watched. The caller runs the Watcher or closes it.
func NewWatcher(path string, o WatchOptions) (*Watcher, error) {
	if o.Settle == 0 {
		o.Settle = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = silence{}
	}
	w := &Watcher{path: path, o: o, hangup: make(chan os.Signal, 1)}
	w.read = &Policy{}
	p, err := w.load()
	if err != nil {
		return nil, err
	}
	w.current.Store(p)
	if w.fs, err = fsnotify.NewWatcher(); err != nil {
		return nil, fmt.Errorf("watching policy %s: %w", path, err)
	}
	if _, err := w.follow(); err != nil {
		return nil, errors.Join(err, w.fs.Close())
	}
	notifyHangup(w.hangup)
	return w, nil
}

// Close ends the watch. Run does so itself.
func (w *Watcher) Close() error {
	signal.Stop(w.hangup)
	return w.fs.Close()
}

// Policy returns the policy in force.
func (w *Watcher) Policy() *Policy { return w.current.Load() }

// Reload loads the policy anew and swaps it in. The old one stays in force when
// the error is not nil.
func (w *Watcher) Reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reload()
}

// load loads the policy. What its files held is noted before they are read, so that
// no later change is missed.
func (w *Watcher) load() (*Policy, error) {
	for {
		files := w.files(w.read)
		w.seen = fingerprint(files)
		next, err := Load(w.path, w.o.Load)
		if err != nil {
			return nil, err
		}
		w.read = next
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
		w.o.Logger.Error("policy refused, the old one stays in force", "policy", w.path, "checksum", short(old.Checksum), "error", old.Redact(err.Error()))
		return fmt.Errorf("reloading policy %s: %w", w.path, err)
	}
	w.current.Store(next)
	for _, d := range next.Warnings {
		w.o.Logger.Warn("policy", "policy", w.path, "warning", d.String())
	}
	w.o.Logger.Info("policy in force", "policy", w.path, "was", short(old.Checksum), "is", short(next.Checksum))
	return nil
}

// changed reloads when the content of a file differs from what was read last.
func (w *Watcher) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fingerprint(w.files(w.read)) != w.seen {
		_ = w.reload() // it is logged, and the old policy stays
	}
}

func short(checksum string) string { return checksum[:min(12, len(checksum))] }

// Run reloads the policy when it changes, until ctx ends; then it closes the Watcher
// and returns nil. Folders are watched, not files, so that editors and mounts that
// replace files are noticed.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.Close()
	settle := time.NewTimer(w.o.Settle) // what changed before Run counts
	defer settle.Stop()
	var since time.Time // when the first of the changes came that are not yet read
	changed := func() {
		if since.IsZero() {
			since = time.Now()
		}
		settle.Reset(max(0, min(w.o.Settle, time.Until(since.Add(longestSettle*w.o.Settle)))))
	}
	follow := func() {
		// A folder that is gone is watched again once a policy names it; in a new one
		// something may have changed before it was watched.
		if more, _ := w.follow(); more {
			changed()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.hangup:
			_ = w.Reload() // it is logged, and the old policy stays
			follow()
		case <-settle.C:
			since = time.Time{}
			w.changed()
			follow()
		case event, ok := <-w.fs.Events:
			if !ok {
				return fmt.Errorf("watching policy %s: closed", w.path)
			}
			// Traces and ledgers may be written next to the policy, all the time.
			if !event.Has(fsnotify.Write) || slices.Contains(w.followed, filepath.Clean(event.Name)) {
				changed()
			}
		case err, ok := <-w.fs.Errors:
			if !ok {
				return fmt.Errorf("watching policy %s: closed", w.path)
			}
			w.o.Logger.Warn("watching policy", "policy", w.path, "error", err)
			changed() // events may have been lost
		}
	}
}

// follow watches the folders of all files of the policy that was loaded last, and
// reports whether there are new ones among them.
func (w *Watcher) follow() (more bool, err error) {
	w.mu.Lock()
	w.followed = w.files(w.read)
	w.mu.Unlock()
	var faults []error
	for _, file := range w.followed {
		dir := filepath.Dir(file)
		if !slices.Contains(w.fs.WatchList(), dir) {
			if err := w.fs.Add(dir); err != nil {
				faults = append(faults, fmt.Errorf("watching %s: %w", dir, err))
				continue
			}
			more = true
		}
	}
	return more, errors.Join(faults...)
}

// files returns the files that a policy depends on.
func (w *Watcher) files(p *Policy) []string {
	list := []string{}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		list = filesOf(w.path)
		list = append(list, filepath.Join(w.path, "policy.hcl"))
	} else if !strings.HasPrefix(w.path, libraryPrefix) {
		list = append(list, w.path)
	}
	for _, file := range p.Files {
		if !strings.HasPrefix(file, libraryPrefix) {
			list = append(list, file)
		}
	}
	if p.Fit != nil && p.Fit.Profile != "" {
		list = append(list, p.Fit.Profile)
	}
	for i := range list {
		list[i] = filepath.Clean(list[i])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// maxWatched is the size above which a file is taken as unreadable. Profiles are the
// largest of what a policy is made of.
const maxWatched = 64 << 20

// fingerprint sums up the contents of files.
func fingerprint(files []string) [sha256.Size]byte {
	sum := sha256.New()
	for _, file := range files {
		content, err := readRegular(file, file, maxWatched)
		fmt.Fprintf(sum, "%q %t %d\n", file, err == nil, len(content))
		sum.Write(content)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
