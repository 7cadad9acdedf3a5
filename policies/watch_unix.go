//go:build unix

package policies

import (
	"os"
	"os/signal"
	"syscall"
)

func notifyHangup(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
