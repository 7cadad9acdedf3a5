//go:build unix

package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// owner is the user that the server runs as, which must not be root.
type owner struct{ credential *syscall.Credential }

// ordinary returns the current user, or an unprivileged one if that is root.
func ordinary() (owner, error) {
	if os.Getuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return owner{}, errors.New("there is no ordinary user to run PostgreSQL as")
}

func (o owner) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	// In its own group, so that an interrupt at the terminal reaches only the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.credential, Setpgid: true}
	return cmd
}

func (o owner) give(dir string) error {
	if o.credential == nil {
		return nil
	}
	return os.Chown(dir, int(o.credential.Uid), int(o.credential.Gid))
}
