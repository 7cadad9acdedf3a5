//go:build unix

package host

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// writableBy describes who besides root and this user can write to a file or folder; "" means nobody. A group
// with the user's own id is taken to be private. With an access list, the group bits are the mask of all
// rights on the list.
func writableBy(path string, info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	own := s.Uid == uint32(os.Getuid()) && s.Gid == uint32(os.Getgid()) && s.Gid == s.Uid
	const macAdmins = 80 // its members can become root
	asRoot := s.Gid == 0 || runtime.GOOS == "darwin" && s.Gid == macAdmins
	switch mode := info.Mode(); {
	case mode.Perm()&0o002 != 0 && (!mode.IsDir() || mode&fs.ModeSticky == 0):
		return "anybody"
	case mode.Perm()&0o020 != 0 && !own && !asRoot && (!mode.IsDir() || mode&fs.ModeSticky == 0):
		return "its group"
	case mode.Perm()&0o020 != 0 && hasAccessList(path):
		return "others on its access list"
	case s.Uid != 0 && s.Uid != uint32(os.Getuid()) && !isOverflowUser(s.Uid):
		return otherOwner
	}
	return ""
}

// isOverflowUser reports whether uid stands for all users that the user namespace does not map, such as the
// machine's root.
func isOverflowUser(uid uint32) bool {
	const overflow, everybody = 65534, 4294967295
	data, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, count uint64
	if n, _ := fmt.Sscan(string(data), &inside, &outside, &count); err != nil || n != 3 {
		return false
	}
	return uid == overflow && count < everybody
}

func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
