package jail

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// restrict drops every right that the command does not need from this thread and what it starts.
// Unavailable layers are recorded in the report.
func restrict(o *order, r *report) error {
	note := func(layer string, err error) {
		if err != nil {
			r.Missing[layer] = err.Error()
			return
		}
		r.Layers = append(r.Layers, layer)
	}
	if !o.isUnsandboxed() && (o.Namespaces || os.Getuid() == 0) {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	makeThreads()
	note(LayerRlimits, limitResources(o.Limits))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	note(layerWatchdog, nil)
	if o.isUnsandboxed() {
		return nil
	}
	note(LayerLandlock, restrictPaths(o))
	filtered := restrictSyscalls(o)
	note(LayerSeccomp, filtered)
	switch {
	case o.Namespaces || filtered != nil:
	case o.Guest != nil:
		r.Missing[LayerNetwork] = "without namespaces, daemons can be reached by their files"
	default:
		note(LayerNetwork, nil) // no socket can be made
	}
	return nil
}

// dropCapabilities drops what a later exec could gain. This process keeps its capabilities until exec.
func dropCapabilities() error {
	for capability := uintptr(0); ; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			if errors.Is(err, unix.EINVAL) && capability > 0 {
				break // past the last one
			}
			return fmt.Errorf("dropping capability %d: %w", capability, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clearing ambient capabilities: %w", err)
	}
	return nil
}

// makeThreads starts the threads that this process can need, which the runtime then keeps: once the
// command has used up its user's process limit, no thread can be started, and the runtime would abort.
func makeThreads() {
	const enough = 12
	var ready sync.WaitGroup
	release := make(chan struct{})
	for range enough {
		ready.Add(1)
		go func() {
			runtime.LockOSThread() // a thread of its own
			ready.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	ready.Wait()
	close(release)
}

// threadsPerProcess is how many threads a process may have on average.
const threadsPerProcess = 8

func limitResources(l Limits) error {
	seconds := int64(0)
	if l.CPU > 0 {
		seconds = int64(l.CPU.Seconds()) + 1
	}
	const none = -1 // a limit of 0; a zero value means no limit
	for _, limit := range []struct {
		resource int
		value    int64
	}{
		{unix.RLIMIT_CPU, seconds},
		{unix.RLIMIT_FSIZE, l.Disk},
		{unix.RLIMIT_NOFILE, int64(l.OpenFiles)},
		// It counts threads, and compilers have many.
		{unix.RLIMIT_NPROC, int64(l.Processes) * threadsPerProcess},
		// RLIMIT_AS would also count reserved address space, which is gigabytes for Go and Node.
		{unix.RLIMIT_DATA, dataLimit(l)},
		{unix.RLIMIT_CORE, none},
		{unix.RLIMIT_MEMLOCK, 64 << 10},
		{unix.RLIMIT_MSGQUEUE, none},
	} {
		if limit.value == 0 {
			continue
		}
		value := uint64(max(0, limit.value))
		var old unix.Rlimit
		if err := unix.Getrlimit(limit.resource, &old); err == nil && old.Max < value {
			value = old.Max
		}
		if err := unix.Setrlimit(limit.resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("resource %d: %w", limit.resource, err)
		}
	}
	return nil
}

// dataLimit returns the limit on mapped data. It includes what this process, which runs under the same
// limit, has mapped; the memory in use is bounded by watch.
func dataLimit(l Limits) int64 {
	if l.Memory <= 0 {
		return 0
	}
	const enough = 64 << 20 // for the rest of this process
	var size, resident, shared, text, lib, data int64
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(b), &size, &resident, &shared, &text, &lib, &data) // 0 where it says nothing
	}
	return l.Memory + data*int64(os.Getpagesize()) + enough
}

// raiseLoopback sets up the only interface of a new network namespace: tests of
// servers listen on it.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request))); errno != 0 {
		return errno
	}
	return nil
}

// mergeNew copies the files of from that to does not have, with their times, each by a rename, so that
// readers never see half of one. Files at the root of a cache are its book-keeping and are not copied.
// Files of a deep cache are writable for the next command, which has another uid.
func mergeNew(from, to string, deep bool) error {
	return walkTree(from, func(root *os.Root, name string, info fs.FileInfo) error {
		target := filepath.Join(to, name)
		if info.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		_, missing := os.Lstat(target)
		if missing == nil || !info.Mode().IsRegular() || filepath.Dir(name) == "." {
			return nil
		}
		// Random, since each run is process 1: pids would not distinguish concurrent or killed runs.
		temporary, mode := target+"."+rand.Text()+".new", fs.FileMode(0o644)
		if deep {
			mode = info.Mode().Perm() | 0o666
		}
		if err := copyFile(root, name, temporary, mode); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(temporary, mode), os.Chtimes(temporary, info.ModTime(), info.ModTime())); err != nil {
			return err
		}
		return os.Rename(temporary, target)
	})
}
