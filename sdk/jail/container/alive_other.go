//go:build !unix

package container

import "os"

// alive reports whether a process of this machine is there.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
