package host

import "syscall"

// accessList reports whether a file or folder has an access list (setfacl).
func accessList(path string) bool {
	size, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && size > 0
}
