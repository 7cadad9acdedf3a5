//go:build !unix

package policies

import "os"

// notifyHangup does nothing: this system has no SIGHUP.
func notifyHangup(chan<- os.Signal) {}
