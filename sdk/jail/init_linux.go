package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mainCalled is set by Main. Without Main, starting this program as the first process of a run would
// run the program itself.
var mainCalled atomic.Bool

// Main is the entry point of the first process of a run, and then does not return. In any other process
// it does nothing. A program that uses a Jail calls it at the start of main, before anything else.
func Main() {
	mainCalled.Store(true)
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case helperName:
		os.Exit(runFirst())
	case innerName:
		os.Exit(runInner())
	case probeName:
		os.Exit(0)
	}
}

// descriptors returns the pipes from and to the parent, and sets all other descriptors close-on-exec.
func descriptors() (orders, reports *os.File) {
	fd := 3
	if len(os.Args) > 1 {
		if n, err := strconv.Atoi(os.Args[1]); err == nil {
			fd = n
		}
	}
	const all = 1 << 20
	if unix.CloseRange(uint(fd), all, unix.CLOSE_RANGE_CLOEXEC) != nil { // before Linux 5.11
		for n := fd; n < 1024; n++ {
			unix.CloseOnExec(n)
		}
	}
	return os.NewFile(uintptr(fd), "orders"), os.NewFile(uintptr(fd+1), "reports")
}

func runFirst() int {
	// The restrictions below apply to this thread and to what it starts.
	runtime.LockOSThread()
	orders, reports := descriptors()
	var o order
	r := &report{Result: Result{ExitCode: -1, Missing: map[string]string{}}}
	err := json.NewDecoder(orders).Decode(&o)
	if err == nil {
		go watchLifeline(orders, &o)
		if o.Guest != nil {
			var code int
			if code, err = runGuest(&o, r, reports); err == nil && len(r.Lacks) == 0 {
				return code
			}
		} else {
			err = runOrder(&o, r)
		}
	}
	if err != nil {
		r.Error = err.Error()
	}
	if o.Temp != "" {
		os.RemoveAll(o.Temp)
	}
	if json.NewEncoder(reports).Encode(r) != nil {
		return 1
	}
	return 0
}

// watchLifeline kills the run when the parent exits, which closes the pipe.
func watchLifeline(orders *os.File, o *order) {
	_, _ = io.Copy(io.Discard, orders)
	killAll(o.Namespaces)
	if o.Temp != "" {
		os.RemoveAll(o.Temp)
	}
	os.Exit(1)
}

func buildWalls(o *order, r *report) (*tree, error) {
	// No process with the same uid can inspect this one.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("hiding: %w", err)
	}
	// When the machine runs out of memory, the kernel kills the run first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	if o.Group {
		r.Layers = append(r.Layers, LayerCgroup)
	}
	if !o.Namespaces {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("adopting orphans: %w", err)
		}
		return nil, nil
	}
	if o.UserNamespace || o.UID >= 0 {
		r.Layers = append(r.Layers, LayerUser)
	} else {
		r.Missing[LayerUser] = "it keeps the uid of root, to write in place"
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("making mounts private: %w", err)
	}
	if o.isUnsandboxed() {
		r.Layers = append(r.Layers, LayerPID)
		return nil, mountProc("/proc", 0)
	}
	t, err := buildRoot(o)
	if err != nil {
		return nil, err
	}
	if err := raiseLoopback(); err != nil {
		return nil, fmt.Errorf("enabling loopback: %w", err)
	}
	_ = unix.Sethostname([]byte("jail"))
	r.Layers = append(r.Layers, LayerPID, LayerMount, LayerIPC, LayerNetwork)
	return t, nil
}

// recordLacks records the required layers that are unavailable, and reports whether there are any.
func recordLacks(o *order, r *report) bool {
	r.Lacks = Lacks(o.Require, r.Layers)
	return len(r.Lacks) > 0
}

func runOrder(o *order, r *report) error {
	t, err := buildWalls(o, r)
	if err != nil {
		return err
	}
	dir, err := prepareTree(o)
	if err != nil {
		return err
	}
	guarded, placed := identify(dir, o.Guarded), t.arePlaced(o.Guarded)
	if o.Namespaces {
		if err := restrict(o, r); err != nil || recordLacks(o, r) {
			return err
		}
	}
	if err := run(o, r, dir); err != nil || len(r.Lacks) > 0 {
		return err
	}
	for i, now := range identify(dir, o.Guarded) {
		if now == guarded[i] {
			continue
		}
		if file := o.Guarded[i]; placed[i] || t.isWritten(dir, file) {
			r.Touched = append(r.Touched, file)
		} else {
			r.Disturbed = append(r.Disturbed, file)
		}
	}
	r.Reports = readReports(dir, o.Reports)
	if r.End != EndExit && r.End != EndTimeout {
		return nil
	}
	for _, k := range keptCaches(o, t) {
		if err := errors.Join(os.MkdirAll(k.keep, 0o755), mergeNew(k.upper, k.keep, k.deep)); err != nil {
			return fmt.Errorf("keeping the cache: %w", err)
		}
	}
	return nil
}

// prepareTree prepares the command's directory, which it returns, and its caches.
func prepareTree(o *order) (dir string, err error) {
	dir = o.Dir
	if o.Namespaces {
		err = os.Setenv("TMPDIR", "/tmp")
	} else {
		dir, err = copyWorkTree(o)
	}
	if err == nil {
		err = fillCaches(o)
	}
	if err == nil && dir != "" {
		err = applyChanges(dir, o)
	}
	return dir, err
}

// keptCaches returns the caches whose new files are kept; t is nil without a mount namespace.
func keptCaches(o *order, t *tree) []keptCache {
	if t != nil {
		return t.kept
	}
	var list []keptCache
	for i, cache := range o.Caches {
		if cache.Keep != "" {
			list = append(list, keptCache{o.cacheFolder(i), cache.Keep, cache.Deep})
		}
	}
	return list
}

// copyWorkTree returns the command's directory if there is no mount namespace: a copy of the tree,
// or the tree itself for a run in place.
func copyWorkTree(o *order) (string, error) {
	if o.Dir == "" || o.InPlace {
		return o.Dir, nil
	}
	dir := filepath.Join(o.Temp, "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := copyTree(o.Dir, dir, -1, -1); err != nil {
		return "", fmt.Errorf("copying %s: %w", o.Dir, err)
	}
	return dir, nil
}
