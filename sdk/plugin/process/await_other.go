//go:build !linux

package process

import "os"

// awaitExit waits until the process has ended. This also reaps it, so that the runner's own wait returns
// an error, which is ignored.
func awaitExit(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_, _ = p.Wait()
	}
}
