//go:build unix && !linux

package jail

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the command a process group, which is killed as a whole.
func ownGroup(command *exec.Cmd) (kill func()) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill = func() {
		if command.Process != nil {
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
	}
	command.Cancel = func() error { kill(); return nil }
	return kill
}
