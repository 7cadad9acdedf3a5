//go:build !linux

package swe

import (
	"context"
	"os/exec"
	"syscall"
)

// NewJail returns a jail without namespaces: they are Linux's.
func NewJail(context.Context, string) *Jail {
	const why = "only on Linux"
	return &Jail{
		Layers:  []string{"process group", "clean environment", "time and output limits"},
		Missing: map[string]string{"network": why, "files": why},
	}
}

// JailMain does nothing here.
func JailMain() {}

func (j *Jail) command(ctx context.Context, dir, temp string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = j.environment(dir, temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
