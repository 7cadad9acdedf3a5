//go:build !unix

package policies

import "os"

func notifyHangup(chan<- os.Signal) {}
