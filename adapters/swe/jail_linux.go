package swe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
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
	if ran, err := plain.Run(ctx, dir, 10*time.Second, "true"); err != nil || ran.Code != 0 {
		j.namespaces = false
		j.Missing["network"] = "user namespaces are not to be had"
	} else {
		j.Layers = append(j.Layers, "no network", "process namespace")
	}
	if helper == "" {
		j.Missing["files"] = "no helper program"
		return j
	}
	if ran, err := j.Run(ctx, dir, 10*time.Second, "true"); err != nil || ran.Code != 0 {
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
	for name, folder := range caches() {
		if name == "GOCACHE" {
			writable = append(writable, folder)
		}
	}
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
	rules := make([]landlock.Rule, 0, 24)
	for _, path := range writable {
		rules = append(rules, rule(path, true)...)
	}
	for _, path := range readable {
		rules = append(rules, rule(path, false)...)
	}
	if err := landlock.V5.RestrictPaths(rules...); err != nil {
		if err := landlock.V1.RestrictPaths(rules...); err != nil {
			return fail(err)
		}
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fail(err)
	}
	return fail(syscall.Exec(program, args, os.Environ()))
}

func rule(path string, write bool) []landlock.Rule {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case info.IsDir() && write:
		return []landlock.Rule{landlock.RWDirs(path).WithRefer()}
	case info.IsDir():
		return []landlock.Rule{landlock.RODirs(path)}
	case write:
		return []landlock.Rule{landlock.RWFiles(path)}
	}
	return []landlock.Rule{landlock.ROFiles(path)}
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
