//go:build unix

package plugin

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// claimStdout reserves the standard output pipe for the handshake. Everything else that is written to
// file descriptor 1, also by C libraries and child processes, goes to the log.
func claimStdout() error {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return err
	}
	if err := duplicate(2, 1); err != nil {
		return err
	}
	os.Stdout = os.NewFile(uintptr(fd), "handshake")
	return nil
}

// killOwnGroup kills the process and its children if it leads its process group, as it does when a
// host started it.
func killOwnGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
