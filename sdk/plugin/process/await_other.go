//go:build !linux

package process

import "os"

// awaitExit waits until the process has exited. This also reaps it, so the runner's own Wait returns
// an error, which is ignored.
func awaitExit(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_, _ = p.Wait()
	}
}
