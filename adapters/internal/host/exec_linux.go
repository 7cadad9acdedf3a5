package host

import (
	"fmt"
	"os"
)

// execPath returns a path of the open file itself, so that a program that replaces it after the check is
// not run. It returns "" for scripts.
func execPath(f *os.File) (string, error) {
	script, err := isScript(f)
	if err != nil || script {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
}
