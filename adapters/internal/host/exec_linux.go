package host

import (
	"fmt"
	"os"
)

// execPath names the open file itself, so that a program that was replaced after
// the check is not run.
func execPath(f *os.File) (string, error) {
	script, err := isScript(f)
	if err != nil || script {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
}
