package jail

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedCalls are system calls that no test needs but many escapes use.
var deniedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG,
	unix.SYS_VHANGUP, unix.SYS_FANOTIFY_INIT,
}

// families are the address families that are allowed in a network namespace: local sockets, and the
// internet, which is empty there. Namespaces do not confine others, such as AF_VSOCK. Without a network
// namespace no socket is allowed: it could reach the network, or a daemon such as Docker by its file.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// newNamespaces are the clone flags that create namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Offsets into struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	argSize    = 8
)

// modeCall is a system call that sets a file's mode.
type modeCall struct {
	number uint32
	// mode is the index of the mode argument. If requiredFlags is not 0, the mode only matters when the argument
	// with index flags has one of these flags.
	mode, flags, requiredFlags uint32
}

// modeCalls returns the calls that set file modes, except openat2: its mode is in memory, which a filter
// cannot read.
func modeCalls() []modeCall {
	const making = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	all := []modeCall{
		{number: unix.SYS_FCHMOD, mode: 1}, {number: unix.SYS_FCHMODAT, mode: 2}, {number: unix.SYS_FCHMODAT2, mode: 2},
		{number: unix.SYS_MKNODAT, mode: 2}, {number: unix.SYS_OPENAT, mode: 3, flags: 2, requiredFlags: making},
	}
	if runtime.GOARCH == "amd64" {
		const chmod, open, creat, mknod = 90, 2, 85, 133
		all = append(all, modeCall{number: chmod, mode: 1}, modeCall{number: creat, mode: 1}, modeCall{number: mknod, mode: 1}, modeCall{number: open, mode: 2, flags: 1, requiredFlags: making})
	}
	return all
}

// The instructions of a filter, and its return values.
const (
	load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	eq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ge   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	set  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	ret  = unix.BPF_RET | unix.BPF_K

	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	allow   = unix.SECCOMP_RET_ALLOW
)

func loadArgument(n uint32) unix.SockFilter {
	return unix.SockFilter{Code: load, K: dataArg0 + argSize*n}
}

func answer(with uint32) unix.SockFilter { return unix.SockFilter{Code: ret, K: with} }

// onCall returns a block that handles one system call. It expects the call number to be loaded, and
// leaves it loaded for other calls.
func onCall(number uint32, then ...unix.SockFilter) []unix.SockFilter {
	return slices.Insert(then, 0, unix.SockFilter{Code: eq, K: number, Jf: uint8(len(then))})
}

// onFlags returns a block that answers a call with any of the flags in an argument, and allows others.
func onFlags(number, argument, flags, with uint32) []unix.SockFilter {
	return onCall(number, loadArgument(argument), unix.SockFilter{Code: set, K: flags, Jf: 1}, answer(with), answer(allow))
}

// oneOf returns a block that results in with or, if the loaded value is none of values, in otherwise.
func oneOf(values []uint32, with, otherwise uint32) (block []unix.SockFilter) {
	for i, value := range values {
		block = append(block, unix.SockFilter{Code: eq, K: value, Jt: uint8(len(values) - i)})
	}
	return append(block, answer(otherwise), answer(with))
}

// block returns a block that denies setting the setuid and setgid bits.
func (m *modeCall) block() []unix.SockFilter {
	block := onFlags(m.number, m.mode, unix.S_ISUID|unix.S_ISGID, refuse)
	if m.requiredFlags == 0 {
		return block
	}
	return onCall(m.number, append([]unix.SockFilter{loadArgument(m.flags), {Code: set, K: m.requiredFlags, Jf: 3}}, block[1:]...)...)
}

// onSocketPair returns a block that denies non-local socket pairs and, if isConnected is true, pairs of
// datagram sockets, which could send to other sockets.
func onSocketPair(isConnected bool) []unix.SockFilter {
	const kind = 0xf // mask of the type without its flags
	local := []uint32{unix.AF_UNIX}
	if !isConnected {
		return onCall(unix.SYS_SOCKETPAIR, append([]unix.SockFilter{loadArgument(0)}, oneOf(local, allow, refuse)...)...)
	}
	return onCall(unix.SYS_SOCKETPAIR, append([]unix.SockFilter{
		loadArgument(0), {Code: eq, K: unix.AF_UNIX, Jt: 1}, answer(refuse), loadArgument(1), {Code: and, K: kind},
	}, oneOf([]uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET}, allow, refuse)...)...)
}

func (o *order) allowedFamilies() []uint32 {
	switch {
	case o.Namespaces:
		return families
	case o.Guest != nil:
		return []uint32{unix.AF_UNIX} // it serves the host over one
	}
	return nil
}

// absentCalls returns the system calls that fail as if the kernel did not have them.
func (o *order) absentCalls() []uint32 {
	// Page cache residency of shared files would be a covert channel between runs.
	absent := []uint32{unix.SYS_MEMFD_SECRET, unix.SYS_MINCORE, unix.SYS_CACHESTAT}
	if !o.Group {
		// Data in such a file that is not mapped belongs to no process: only a cgroup counts it.
		absent = append(absent, unix.SYS_MEMFD_CREATE)
	}
	if !o.Namespaces {
		// These objects outlive every process that uses them.
		absent = append(absent, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET)
	}
	if o.InPlace {
		absent = append(absent, unix.SYS_OPENAT2) // see modeCalls
	}
	// The flags of clone3 are in memory, which a filter cannot read. Without clone3, libraries use clone.
	return append(absent, unix.SYS_CLONE3)
}

// filter returns the program of an order for an architecture. The first block that matches decides.
func (o *order) filter(arch uint32) []unix.SockFilter {
	blocks := [][]unix.SockFilter{{
		{Code: load, K: dataArch},
		{Code: eq, K: arch, Jt: 1},
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		{Code: load, K: dataNumber},
		// The x32 calls of amd64 have their own numbers, from here on.
		{Code: ge, K: 0x40000000, Jf: 1},
		answer(refuse),
	}}
	for _, number := range o.absentCalls() {
		blocks = append(blocks, onCall(number, answer(unknown)))
	}
	if o.InPlace {
		// Every user of the machine could run a setuid program left on disk as its owner.
		for _, call := range modeCalls() {
			blocks = append(blocks, call.block())
		}
	}
	if !o.Namespaces {
		// A process could kill another of the same user by lowering its limit on CPU time or file size.
		own := oneOf([]uint32{0}, allow, refuse)
		blocks = append(blocks, onCall(unix.SYS_PRLIMIT64, append([]unix.SockFilter{loadArgument(0)}, own...)...))
	}
	allowed := o.allowedFamilies()
	return slices.Concat(append(blocks,
		onSocketPair(len(allowed) == 0),
		onCall(unix.SYS_SOCKET, append([]unix.SockFilter{loadArgument(0)}, oneOf(allowed, allow, refuse)...)...),
		// Nor can a run change which pages are cached: fadvise succeeds without effect.
		onCall(unix.SYS_FADVISE64, answer(unix.SECCOMP_RET_ERRNO)),
		onFlags(unix.SYS_PREADV2, 5, unix.RWF_NOWAIT, unix.SECCOMP_RET_ERRNO|uint32(unix.EOPNOTSUPP)),
		// No memory count includes huge pages, not even that of a cgroup.
		onFlags(unix.SYS_MEMFD_CREATE, 1, unix.MFD_HUGETLB, refuse),
		onFlags(unix.SYS_MMAP, 3, unix.MAP_HUGETLB, refuse),
		onFlags(unix.SYS_CLONE, 0, newNamespaces, refuse),
		oneOf(deniedCalls, refuse, allow),
	)...)
}

// restrictSyscalls installs the filter on the calling thread, and so on every process that it starts.
// The thread must have no_new_privs.
func restrictSyscalls(o *order) error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	filter := o.filter(arch)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
