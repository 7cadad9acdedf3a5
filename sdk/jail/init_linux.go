package jail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main is the first process of a run when the program was started as one; it
// does not return then. Otherwise it does nothing. A program that uses a Jail
// calls it at the start of main, before anything else.
func Main() {
	if len(os.Args) > 0 && os.Args[0] == innerName {
		os.Exit(inner())
	}
	if len(os.Args) == 0 || os.Args[0] != helperName {
		return
	}
	// What is restricted below is restricted for this thread and for what it starts.
	runtime.LockOSThread()
	orders, reports := os.NewFile(3, "orders"), os.NewFile(4, "reports")
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	var o order
	r := &report{ExitCode: -1, Missing: map[string]string{}}
	err := json.NewDecoder(orders).Decode(&o)
	if err == nil {
		go lifeline(orders, &o)
		err = serve(&o, r)
	}
	if err != nil {
		r.Error = err.Error()
	}
	if o.Temp != "" {
		os.RemoveAll(o.Temp)
	}
	if json.NewEncoder(reports).Encode(r) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// lifeline ends the run when the plugin is gone: its end of the pipe closes.
func lifeline(orders *os.File, o *order) {
	_, _ = io.Copy(io.Discard, orders)
	killAll(o.Namespaces)
	if o.Temp != "" {
		os.RemoveAll(o.Temp)
	}
	os.Exit(1)
}

// serve builds the walls, runs the command and fills in the report.
func serve(o *order, r *report) error {
	// Nobody with the same uid may look into this process.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hiding: %w", err)
	}
	// When memory runs out, the run goes first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	dir := o.Dir
	var t *tree
	if o.Namespaces {
		var err error
		if t, err = buildRoot(o); err != nil {
			return err
		}
		r.Layers = append(r.Layers, LayerPID, LayerMount, LayerIPC)
		if o.UserNamespace || o.UID >= 0 {
			r.Layers = append(r.Layers, LayerUser)
		} else {
			r.Missing[LayerUser] = "the command keeps root's uid, without capabilities, to write in place"
		}
		if err := raiseLoopback(); err != nil {
			return fmt.Errorf("raising the loopback: %w", err)
		}
		r.Layers = append(r.Layers, LayerNetwork)
		_ = unix.Sethostname([]byte("jail"))
		if err := os.Setenv("TMPDIR", "/tmp"); err != nil {
			return err
		}
	} else {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("adopting orphans: %w", err)
		}
		if o.Dir != "" && !o.InPlace {
			dir = filepath.Join(o.Temp, "tree")
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			if err := copyTree(o.Dir, dir, o.UID, o.GID); err != nil {
				return fmt.Errorf("copying %s: %w", o.Dir, err)
			}
		}
		if o.UID >= 0 {
			if err := os.Chown(o.Temp, o.UID, o.GID); err != nil {
				return err
			}
		}
	}
	if err := fillCaches(o); err != nil {
		return err
	}
	guarded := []identity(nil)
	if dir != "" {
		if err := applyChanges(dir, o); err != nil {
			return err
		}
		guarded = identify(dir, o.Guarded)
	}
	if o.Namespaces {
		if err := restrict(o, r); err != nil {
			return err
		}
		if o.Probe {
			r.End, r.ExitCode = EndExit, 0
			return nil
		}
	}
	if err := run(o, r, dir); err != nil {
		return err
	}
	for i, now := range identify(dir, o.Guarded) {
		if now != guarded[i] {
			r.Touched = append(r.Touched, o.Guarded[i])
		}
	}
	r.Reports = readReports(dir, o.Reports)
	if t != nil && r.End == EndExit && r.ExitCode == 0 {
		for upper, keep := range t.uppers {
			if err := mergeNew(upper, keep); err != nil {
				return fmt.Errorf("keeping the cache: %w", err)
			}
		}
	}
	return nil
}

// fillCaches puts Cache.Files where the command will find them.
func fillCaches(o *order) error {
	for i, cache := range o.Caches {
		path := cache.Path
		if !o.Namespaces {
			path = filepath.Join(o.Temp, fmt.Sprintf("cache%d", i))
			for j, entry := range o.Env {
				if name, value, ok := strings.Cut(entry, "="); ok && value == cache.Path {
					o.Env[j] = name + "=" + path
				}
			}
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if !o.Namespaces && o.UID >= 0 {
			if err := os.Chown(path, o.UID, o.GID); err != nil {
				return err
			}
		}
		for name, data := range cache.Files {
			file := filepath.Join(path, name)
			if err := os.WriteFile(file, data, 0o644); err != nil {
				return err
			}
			if o.UID >= 0 {
				if err := os.Chown(file, o.UID, o.GID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// applyChanges makes the changes below dir; none can reach outside of it.
func applyChanges(dir string, o *order) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, change := range o.Changes {
		name := filepath.FromSlash(change.Path)
		if err := root.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replacing %s: %w", change.Path, err)
		}
		if change.Delete {
			continue
		}
		if err := makeParents(root, filepath.Dir(name), o); err != nil {
			return err
		}
		mode := change.Mode.Perm()
		if mode == 0 {
			mode = 0o644
		}
		if err := root.WriteFile(name, change.Data, mode); err != nil {
			return fmt.Errorf("writing %s: %w", change.Path, err)
		}
		if o.UID >= 0 {
			if err := root.Lchown(name, o.UID, o.GID); err != nil {
				return err
			}
		}
	}
	return nil
}

func makeParents(root *os.Root, dir string, o *order) error {
	if dir == "." {
		return nil
	}
	if _, err := root.Stat(dir); err == nil {
		return nil
	}
	if err := makeParents(root, filepath.Dir(dir), o); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if o.UID < 0 {
		return nil
	}
	return root.Lchown(dir, o.UID, o.GID)
}

// identity changes whenever a file is written, replaced or removed: no program
// can set a change time.
type identity struct {
	inode       uint64
	size        int64
	change      syscall.Timespec
	there, link bool
}

func identify(dir string, files []string) []identity {
	ids := make([]identity, len(files))
	for i, file := range files {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			ids[i] = identity{stat.Ino, stat.Size, stat.Ctim, true, info.Mode()&fs.ModeSymlink != 0}
		}
	}
	return ids
}

func readReports(dir string, names []string) map[string][]byte {
	if dir == "" || len(names) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	found := map[string][]byte{}
	for _, name := range names {
		file, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			var data bytes.Buffer
			if _, err := io.Copy(&data, io.LimitReader(file, maxReport)); err == nil {
				found[name] = data.Bytes()
			}
		}
		file.Close()
	}
	return found
}

// run starts the command, watches it and reaps until nothing is left.
func run(o *order, r *report, dir string) error {
	command := &exec.Cmd{Args: o.Argv, Dir: dir, Env: o.Env, Stdout: os.Stdout, Stderr: os.Stderr}
	home, temp := "/tmp/home", "/tmp"
	if !o.Namespaces {
		home, temp = filepath.Join(o.Temp, "home"), filepath.Join(o.Temp, "tmp")
		for _, path := range []string{home, temp} {
			if err := os.Mkdir(path, 0o755); err != nil {
				return err
			}
			if o.UID >= 0 {
				if err := os.Chown(path, o.UID, o.GID); err != nil {
					return err
				}
			}
		}
	}
	command.Env = append(command.Env, "HOME="+home, "TMPDIR="+temp)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.UID >= 0 {
		command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	}
	handOver := func() error { return nil }
	if !o.Probe {
		path, err := lookPath(o.Argv[0], dir, command.Env)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			r.End, r.ExitCode = EndExit, notFound
			return nil
		}
		command.Path = path
	}
	if !o.Namespaces {
		var err error
		if handOver, err = throughInner(command, o, r); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command.Args[0], err)
	}
	var end atomic.Value
	stop := make(chan struct{})
	go watch(o, &end, stop)
	refused := handOver()
	status := reap(command.Process.Pid)
	close(stop)
	r.Command = time.Since(start)
	r.LeftOver = killAll(o.Namespaces)
	if refused != nil {
		return refused
	}
	r.End, r.ExitCode = EndExit, status.ExitStatus()
	if status.Signaled() {
		r.ExitCode = 128 + int(status.Signal())
	}
	if reason, ok := end.Load().(End); ok {
		r.End = reason
	}
	return nil
}

// notFound is the exit code of shells for commands that do not exist.
const notFound = 127

// lookPath finds a command in the PATH that it will have itself.
func lookPath(name, dir string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return filepath.Join(dir, name), nil
	}
	for _, entry := range env {
		list, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			path := filepath.Join(folder, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("command %s: %w in the PATH of the jail", name, exec.ErrNotFound)
}

// reap collects every process that ends until pid has.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if ended == pid || err != nil {
			return status
		}
	}
}
