package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	readFile  = ll.AccessFSExecute | ll.AccessFSReadFile
	readDir   = readFile | ll.AccessFSReadDir
	writeFile = ll.AccessFSWriteFile | ll.AccessFSTruncate
	// every right on files that ABI 1 knows.
	firstRights = ll.AccessFSMakeSym<<1 - 1
)

type ruleset struct {
	fd     int
	rights uint64
}

// restrictPaths allows by Landlock what the mount namespace shows, or, without
// one, only the paths of the order; and no signals to processes outside. It
// binds the calling thread and what that starts: the other threads of this
// process must still be able to kill what the command leaves behind.
func restrictPaths(o *order) error {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("asking the kernel for Landlock: %w", err)
	}
	rules, err := newRuleset(abi, !o.Namespaces)
	if err != nil {
		return err
	}
	defer unix.Close(rules.fd)

	read, write := append([]string{"/proc"}, o.ReadOnly...), append([]string{o.Temp}, o.Writable...)
	if o.Namespaces {
		read, write = []string{"/"}, append([]string{"/tmp", "/dev/shm"}, o.Writable...)
	}
	if o.Dir != "" && (o.Namespaces || o.InPlace) {
		write = append(write, o.Dir)
	}
	for _, cache := range o.Caches {
		if !o.Namespaces && !cache.Deep {
			read = append(read, cache.Lower...) // see link
		}
		if o.Namespaces {
			write = append(write, cache.Path)
			if cache.Keep != "" {
				write = append(write, layersDir) // a trusted run, and this process copies
			}
		}
	}
	for _, path := range read {
		if err := rules.allow(path, readDir); err != nil {
			return err
		}
	}
	for _, path := range write {
		if err := rules.allow(path, rules.rights); err != nil {
			return err
		}
	}
	for _, name := range devices {
		if err := rules.allow(filepath.Join("/dev", name), readFile|writeFile); err != nil {
			return err
		}
	}
	if o.Guest != nil && o.Guest.FromFile {
		if err := rules.allowFile(o.Guest.program, readFile); err != nil {
			return err
		}
	}
	if err := ll.LandlockRestrictSelf(rules.fd, 0); err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

// newRuleset handles all that the kernel's version knows; with noNetwork, TCP as
// well, where nothing else confines it.
func newRuleset(abi int, noNetwork bool) (*ruleset, error) {
	attributes := ll.RulesetAttr{HandledAccessFS: firstRights}
	if abi >= 2 {
		attributes.HandledAccessFS |= ll.AccessFSRefer
	}
	if abi >= 3 {
		attributes.HandledAccessFS |= ll.AccessFSTruncate
	}
	if abi >= 4 && noNetwork {
		attributes.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if abi >= 5 {
		attributes.HandledAccessFS |= ll.AccessFSIoctlDev
	}
	if abi >= 6 {
		attributes.Scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	fd, err := ll.LandlockCreateRuleset(&attributes, 0)
	if err != nil {
		return nil, fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	return &ruleset{fd, attributes.HandledAccessFS}, nil
}

// allow gives the rights to path and all below it; a path that does not exist, or
// that this program itself may not reach, is left out.
func (r *ruleset) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := r.allowFile(fd, rights); err != nil {
		return fmt.Errorf("allowing %s: %w", path, err)
	}
	return nil
}

func (r *ruleset) allowFile(fd int, rights uint64) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= readFile | writeFile | ll.AccessFSIoctlDev
	}
	rule := ll.PathBeneathAttr{AllowedAccess: rights & r.rights, ParentFd: fd}
	return ll.LandlockAddPathBeneathRule(r.fd, &rule, 0)
}
