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
	// firstRights are all file rights of ABI 1.
	firstRights = ll.AccessFSMakeSym<<1 - 1
)

type ruleset struct {
	fd     int
	rights uint64
}

// restrictPaths uses Landlock to allow what the mount namespace shows or, without one, only the paths
// of the order, and no signals to processes outside. It restricts the calling thread and what that
// starts: other threads of this process must still be able to kill what the command leaves behind.
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

	for _, g := range o.grants(rules.rights) {
		if err := rules.allow(g.path, g.rights); err != nil {
			return err
		}
	}
	if o.Guest.isFile() {
		if err := rules.allowFile(o.Guest.program, readFile); err != nil {
			return err
		}
	}
	if err := ll.LandlockRestrictSelf(rules.fd, 0); err != nil {
		return fmt.Errorf("landlock_restrict_self: %w", err)
	}
	return nil
}

// grant has the rights of a command on a path and everything below it.
type grant struct {
	path   string
	rights uint64
}

// grants returns the grants of an order: read rights, and all rights on its own paths.
func (o *order) grants(all uint64) (grants []grant) {
	add := func(rights uint64, paths ...string) {
		for _, path := range paths {
			grants = append(grants, grant{path, rights})
		}
	}
	if o.Namespaces {
		add(readDir, "/")
		add(all, "/tmp", "/dev/shm")
	} else {
		add(readDir, append([]string{"/proc"}, o.ReadOnly...)...)
		add(all, o.Temp)
	}
	add(all, o.Writable...)
	if o.Dir != "" && (o.Namespaces || o.InPlace) {
		add(all, o.Dir)
	}
	for _, cache := range o.Caches {
		switch {
		case o.Namespaces && cache.Keep != "": // a trusted run, after which this process copies files
			add(all, cache.Path, layersDir)
		case o.Namespaces:
			add(all, cache.Path)
		case !cache.Deep:
			add(readDir, cache.Lower...) // see link
		}
	}
	for _, name := range devices {
		add(readFile|writeFile, filepath.Join("/dev", name))
	}
	return grants
}

// newRuleset returns a ruleset that handles every right the kernel knows, and TCP if noNetwork is true.
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

// allow grants rights on path and everything below it. A path that does not exist, or that this program
// cannot access, is skipped.
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
