//go:build unix

package host_test

import (
	"os"
	"strconv"
	"strings"
)

// processExists reports whether there is a process pid that is not a zombie.
func processExists(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(data), ") ")
	return ok && !strings.HasPrefix(rest, "Z")
}
