package policies

import (
	"context"
	"crypto/sha256"
	"errors"
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
	Logger *slog.Logger
}

// Watcher holds a policy and swaps it for a new one when its files change or
// SIGHUP arrives. A new policy that has errors, or that is not accepted, changes
// nothing. Who took a policy before the swap goes on with it: a step finishes
// under the policy that it started with. It is safe for concurrent use.
type Watcher struct {
	path    string
	o       WatchOptions
	current atomic.Pointer[Policy]

	// mu is held while a policy is loaded and swapped in.
	mu   sync.Mutex
	seen [sha256.Size]byte
}

// NewWatcher loads the policy at path. Its error is that of [Load]. Nothing is
// watched until [Watcher.Run].
func NewWatcher(path string, o WatchOptions) (*Watcher, error) {
	if o.Settle == 0 {
		o.Settle = 100 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{path: path, o: o}
	p, err := Load(path, o.Load)
	if err != nil {
		return nil, err
	}
	w.current.Store(p)
	w.seen = w.fingerprint(p)
	return w, nil
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

func (w *Watcher) reload() error {
	old := w.current.Load()
	w.seen = w.fingerprint(old)
	next, err := Load(w.path, w.o.Load)
	if err == nil && w.o.Accept != nil {
		err = w.o.Accept(old, next)
	}
	if err != nil {
		w.o.Logger.Error("policy refused, the old one stays in force", "policy", w.path, "checksum", short(old.Checksum), "error", old.Redact(err.Error()))
		return fmt.Errorf("reloading policy %s: %w", w.path, err)
	}
	w.current.Store(next)
	w.seen = w.fingerprint(next)
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
	if w.fingerprint(w.current.Load()) != w.seen {
		_ = w.reload() // it is logged, and the old policy stays
	}
}

func short(checksum string) string { return checksum[:min(12, len(checksum))] }

// Run watches until ctx ends; then it returns nil. Folders are watched, not files,
// so that editors and mounts that replace files are noticed.
func (w *Watcher) Run(ctx context.Context) error {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching policy %s: %w", w.path, err)
	}
	defer fs.Close()
	hangup := make(chan os.Signal, 1)
	notifyHangup(hangup)
	defer signal.Stop(hangup)
	settle := time.NewTimer(w.o.Settle)
	defer settle.Stop()
	if err := w.follow(fs); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
			_ = w.Reload() // it is logged, and the old policy stays
			_ = w.follow(fs)
		case <-settle.C:
			w.changed()
			_ = w.follow(fs) // a folder that is gone is watched again once a policy names it
		case _, ok := <-fs.Events:
			if !ok {
				return fmt.Errorf("watching policy %s: closed", w.path)
			}
			settle.Reset(w.o.Settle)
		case err, ok := <-fs.Errors:
			if !ok {
				return fmt.Errorf("watching policy %s: closed", w.path)
			}
			w.o.Logger.Warn("watching policy", "policy", w.path, "error", err)
			settle.Reset(w.o.Settle) // events may have been lost
		}
	}
}

// follow watches the folders of all files of the policy in force.
func (w *Watcher) follow(fs *fsnotify.Watcher) error {
	var faults []error
	for _, file := range w.files(w.current.Load()) {
		dir := filepath.Dir(file)
		if !slices.Contains(fs.WatchList(), dir) {
			if err := fs.Add(dir); err != nil {
				faults = append(faults, fmt.Errorf("watching %s: %w", dir, err))
			}
		}
	}
	return errors.Join(faults...)
}

// files returns the files that a policy depends on.
func (w *Watcher) files(p *Policy) []string {
	list := []string{}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		list, _ = filepath.Glob(filepath.Join(w.path, "*.hcl")) // the pattern is well formed unless the path is odd
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
	slices.Sort(list)
	return slices.Compact(list)
}

// fingerprint sums up the contents of the files that a policy depends on.
func (w *Watcher) fingerprint(p *Policy) [sha256.Size]byte {
	sum := sha256.New()
	for _, file := range w.files(p) {
		content, err := os.ReadFile(file)
		fmt.Fprintf(sum, "%q %t %d\n", file, err == nil, len(content))
		sum.Write(content)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}
