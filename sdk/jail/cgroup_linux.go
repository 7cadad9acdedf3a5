package jail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stepfall/stepfall/sdk/internal/processes"
)

// hierarchy is a cgroup v2 directory in which this program can create groups with memory and process
// limits. Its functions are replaced in tests.
type hierarchy struct {
	dir          string
	mkdir, rmdir func(dir string) error
}

// groupPrefix begins the names of groups; the process id follows.
const groupPrefix = "stepfall-"

// findHierarchy returns the first usable directory: the program's own group or its parent. systemd
// delegates both.
func findHierarchy() (*hierarchy, error) {
	h := &hierarchy{mkdir: func(dir string) error { return os.Mkdir(dir, 0o755) }, rmdir: syscall.Rmdir}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	candidates, err := candidates(string(mounts), string(own))
	if err != nil {
		return nil, err
	}
	var refused error
	for _, dir := range candidates {
		h.dir = dir
		if refused = h.try(); refused == nil {
			h.removeStale()
			return h, nil
		}
	}
	return nil, refused
}

// candidates parses mountinfo and /proc/self/cgroup for the directories of the program's group and its parent.
func candidates(mounts, own string) ([]string, error) {
	mount, root := "", ""
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			root, mount = fields[3], fields[4]
		}
	}
	if mount == "" {
		return nil, errors.New("cgroup v2 is not mounted")
	}
	for line := range strings.Lines(own) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		if relative, err := filepath.Rel(root, group); err == nil && filepath.IsLocal(relative) {
			group = relative
		}
		dir := filepath.Join(mount, group)
		if dir == filepath.Clean(mount) {
			return []string{dir}, nil
		}
		return []string{dir, filepath.Dir(dir)}, nil
	}
	return nil, errors.New("the program is in no group of cgroup v2")
}

func (h *hierarchy) try() error {
	enabled, err := os.ReadFile(filepath.Join(h.dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, controller := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(enabled)), controller) {
			return fmt.Errorf("the controller %s is not enabled below %s", controller, h.dir)
		}
	}
	g, err := h.make(Limits{Memory: 1 << 30, Processes: 64}, 0)
	if err != nil {
		return err
	}
	g.end()
	return nil
}

func (h *hierarchy) removeStale() {
	dirs, err := filepath.Glob(filepath.Join(h.dir, groupPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && !processes.Exists(pid) {
			_ = h.rmdir(dir) // it fails while processes live in it
		}
	}
}

// group is the cgroup of one run. A nil group does nothing.
type group struct {
	hierarchy *hierarchy
	dir       string
}

// newGroup returns the group of an order, or nil and the reason.
func (j *Jail) newGroup(o *order) (*group, string) {
	if j.groups == nil {
		return nil, ""
	}
	files := int64(0)
	if o.Namespaces && !o.isUnsandboxed() {
		files = o.Limits.Disk // files on tmpfs count as the group's memory
	}
	g, err := j.groups.make(o.Limits, files)
	if err != nil {
		return nil, err.Error()
	}
	return g, ""
}

// make creates a group with limits. A limit of zero means none.
func (h *hierarchy) make(limits Limits, files int64) (*group, error) {
	dir := filepath.Join(h.dir, fmt.Sprintf("%s%d-%x", groupPrefix, os.Getpid(), rand.Uint64()))
	if err := h.mkdir(dir); err != nil {
		return nil, err
	}
	g := &group{h, dir}
	set := func(file string, value int64) error {
		if value <= 0 {
			return nil
		}
		return writeControl(filepath.Join(dir, file), strconv.FormatInt(value, 10))
	}
	memory := limits.Memory
	if memory > 0 {
		memory += files
	}
	err := errors.Join(set("memory.max", memory), set("pids.max", int64(limits.Processes)*threadsPerProcess))
	if err == nil {
		// Swapped-out memory would not count. On machines without swap the file does not exist.
		if err = writeControl(filepath.Join(dir, "memory.swap.max"), "0"); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if _, missing := os.Lstat(filepath.Join(dir, "cgroup.kill")); err == nil {
		err = missing // before Linux 5.14
	}
	if err != nil {
		g.end()
		return nil, err
	}
	return g, nil
}

// writeControl writes to a group's control file, which the kernel has created.
func writeControl(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// add moves a process that has not started any other into the group.
func (g *group) add(pid int) error {
	if g == nil {
		return nil
	}
	return writeControl(filepath.Join(g.dir, "cgroup.procs"), strconv.Itoa(pid))
}

func (g *group) kill() {
	if g != nil {
		_ = writeControl(filepath.Join(g.dir, "cgroup.kill"), "1")
	}
}

func (g *group) ranOutOfMemory() bool {
	if g == nil {
		return false
	}
	events, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(events) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return string(bytes.TrimSpace(n)) != "0"
		}
	}
	return false
}

// end kills the group's processes and removes it, retrying until the kernel has released it.
func (g *group) end() {
	if g == nil {
		return
	}
	g.kill()
	for wait := time.Millisecond; wait < 500*time.Millisecond; wait *= 2 {
		if err := g.hierarchy.rmdir(g.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			break
		}
		time.Sleep(wait)
	}
}
