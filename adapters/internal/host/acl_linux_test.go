package host_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/host"
)

// TestAttackAccessList: the mode of a file only shows the mask of its access list, so a group that is private to the
// user does not exclude other writers.
func TestAttackAccessList(t *testing.T) {
	const another = 12345
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range []struct {
		tag, rights uint16
		id          uint32
	}{{1, 7, 1<<32 - 1}, {2, 7, another}, {4, 5, 1<<32 - 1}, {16, 7, 1<<32 - 1}, {32, 5, 1<<32 - 1}} {
		list = binary.LittleEndian.AppendUint16(list, entry.tag)
		list = binary.LittleEndian.AppendUint16(list, entry.rights)
		list = binary.LittleEndian.AppendUint32(list, entry.id)
	}
	for name, of := range map[string]func(dir, program string) string{
		"the program":    func(_, program string) string { return program },
		"its folder":     func(dir, _ string) string { return dir },
		"a folder above": func(dir, _ string) string { return filepath.Dir(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, program := copyOfPlugin(t)
			err := syscall.Setxattr(of(dir, program), "system.posix_acl_access", list, 0)
			if errors.Is(err, syscall.ENOTSUP) {
				t.Skip("no access lists here")
			} else if err != nil {
				t.Fatal(err)
			}
			h := newHost(t, host.Config{SearchPath: []string{dir}})
			if _, err := h.QualityEstimator("quality", "test", nil); err == nil || !strings.Contains(err.Error(), "is writable by") {
				t.Errorf("got %v", err)
			}
		})
	}
}
