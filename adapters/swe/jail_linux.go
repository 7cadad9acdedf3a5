package swe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// jailArg is the first argument that makes a helper program a jail.
const jailArg = "stepfall-swe-jail"

// NewJail probes what isolation can be had here. helper is a program that calls
// [JailMain], usually the running one; "" leaves the file restriction out.
func NewJail(ctx context.Context, helper string) *Jail {
	j := &Jail{Helper: helper, Missing: map[string]string{}, Layers: []string{"process group", "clean environment", "time and output limits"}}
	j.namespaces = true
	dir, err := os.MkdirTemp("", "stepfall-swe-*")
	if err != nil {
		j.namespaces = false
		j.Missing["files"], j.Missing["network"] = err.Error(), err.Error()
		return j
	}
	defer os.RemoveAll(dir)
	plain := *j
	plain.Helper = ""
	if ran, err := plain.Run(ctx, dir, 5*time.Second, "true"); err != nil || ran.Code != 0 {
		j.namespaces = false
		j.Missing["network"] = "user namespaces are not to be had"
	} else {
		j.Layers = append(j.Layers, "no network", "process namespace")
	}
	if helper == "" {
		j.Missing["files"] = "no helper program"
		return j
	}
	if ran, err := j.Run(ctx, dir, 5*time.Second, "true"); err != nil || ran.Code != 0 {
		j.Helper = ""
		j.Missing["files"] = "Landlock is not to be had"
		if ran != nil && ran.Output != "" {
			j.Missing["files"] = firstLine(ran.Output)
		}
	} else {
		j.Layers = append(j.Layers, "files (Landlock)")
	}
	return j
}

func (j *Jail) command(ctx context.Context, dir, temp string, args []string) *exec.Cmd {
	if j.Helper != "" {
		args = append([]string{j.Helper, jailArg, dir, temp, "--"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = j.environment(dir, temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if j.namespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// JailMain turns the program into the jailed command when it was started as one;
// otherwise it returns at once. A program that is a jail's helper calls it first.
func JailMain() {
	if len(os.Args) < 6 || os.Args[1] != jailArg || os.Args[4] != "--" {
		return
	}
	os.Exit(jailed(os.Args[2], os.Args[3], os.Args[5:]))
}

// jailed restricts this process to dir, temp, the caches and the read-only
// toolchain, and becomes the command. It returns an exit code when it cannot.
func jailed(dir, temp string, args []string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "jail:", err)
		return 126
	}
	writable := []string{dir, temp, "/dev/null", "/dev/zero", "/dev/urandom"}
	writable = append(writable, os.Getenv("GOCACHE"))
	readable := []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys/fs/cgroup", "/dev", "/nix", os.Getenv("GOROOT"), os.Getenv("GOMODCACHE"), os.Getenv("PYENV_ROOT")}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		// bin/ lies beside the libraries of its toolchain.
		if parent := filepath.Dir(folder); parent != "/" && parent != homeOf() {
			readable = append(readable, parent)
		}
		readable = append(readable, folder)
	}
	gitDir := linkedGitDir(dir)
	if gitDir != "" {
		readable = append(readable, gitDir)
	}
	// The restriction binds this thread, which becomes the command.
	runtime.LockOSThread()
	if err := restrict(readable, writable); err != nil {
		return fail(err)
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fail(err)
	}
	return fail(syscall.Exec(program, args, os.Environ()))
}

// restrict confines the calling thread by Landlock: readable paths may be read and
// run, writable ones changed as well, everything else is out of reach.
func restrict(readable, writable []string) error {
	const (
		read  = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSReadDir
		files = ll.AccessFSExecute | ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate
	)
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	handled := ll.RulesetAttr{HandledAccessFS: ll.AccessFSMakeSym<<1 - 1}
	if abi >= 2 {
		handled.HandledAccessFS |= ll.AccessFSRefer
	}
	if abi >= 3 {
		handled.HandledAccessFS |= ll.AccessFSTruncate
	}
	ruleset, err := ll.LandlockCreateRuleset(&handled, 0)
	if err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	defer unix.Close(ruleset)
	allow := func(path string, rights uint64) error {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil // what is not there needs no rule
		}
		defer unix.Close(fd)
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil {
			return err
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			rights &= files
		}
		rule := ll.PathBeneathAttr{AllowedAccess: rights & handled.HandledAccessFS, ParentFd: fd}
		if err := ll.LandlockAddPathBeneathRule(ruleset, &rule, 0); err != nil {
			return fmt.Errorf("landlock: allowing %s: %w", path, err)
		}
		return nil
	}
	for _, path := range readable {
		if path != "" {
			if err := allow(path, read); err != nil {
				return err
			}
		}
	}
	for _, path := range writable {
		if err := allow(path, handled.HandledAccessFS); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := ll.LandlockRestrictSelf(ruleset, 0); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

func homeOf() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// linkedGitDir returns the .git folder of the repository that a work tree belongs
// to, so that git log and git diff work in it; it stays read-only.
func linkedGitDir(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, ".git"))
	if err != nil {
		return ""
	}
	path := strings.TrimSpace(strings.TrimPrefix(string(data), "gitdir: "))
	if i := strings.LastIndex(path, "/worktrees/"); i > 0 {
		return path[:i]
	}
	return ""
}
