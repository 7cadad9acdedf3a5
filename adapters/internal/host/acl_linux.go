package host

import "syscall"

func hasAccessList(path string) bool {
	size, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}
