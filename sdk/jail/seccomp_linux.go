package jail

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedCalls are the system calls that no test needs and many escapes do.
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

// families are the address families of sockets in a network namespace: local ones, and the internet,
// which is empty there. Others, such as AF_VSOCK, are not confined by namespaces. Without a namespace
// no socket is allowed: it could reach the network, or a daemon such as Docker's by its file.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// newNamespaces are the clone flags that make a namespace.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// offsets into struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	argSize    = 8
)

// moder is a system call that sets a file's mode.
type moder struct {
	number uint32
	// mode is the argument with the mode. Where asks is not 0, it counts only when the
	// argument flags has some of these.
	mode, flags, asks uint32
}

// modes returns the calls that set modes of files, except openat2, whose mode is in memory, which a filter
// cannot read.
func modes() []moder {
	const making = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	all := []moder{
		{number: unix.SYS_FCHMOD, mode: 1}, {number: unix.SYS_FCHMODAT, mode: 2}, {number: unix.SYS_FCHMODAT2, mode: 2},
		{number: unix.SYS_MKNODAT, mode: 2}, {number: unix.SYS_OPENAT, mode: 3, flags: 2, asks: making},
	}
	if runtime.GOARCH == "amd64" {
		const chmod, open, creat, mknod = 90, 2, 85, 133
		all = append(all, moder{number: chmod, mode: 1}, moder{number: creat, mode: 1}, moder{number: mknod, mode: 1}, moder{number: open, mode: 2, flags: 1, asks: making})
	}
	return all
}

// The instructions of a filter, and its results.
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

// onCall returns a block that handles one system call. The number of the call must be loaded, and stays
// loaded for other calls.
func onCall(number uint32, then ...unix.SockFilter) []unix.SockFilter {
	return slices.Insert(then, 0, unix.SockFilter{Code: eq, K: number, Jf: uint8(len(then))})
}

// onFlags answers a call that has some of the flags in an argument, and allows it without them.
func onFlags(number, argument, flags, with uint32) []unix.SockFilter {
	return onCall(number, loadArgument(argument), unix.SockFilter{Code: set, K: flags, Jf: 1}, answer(with), answer(allow))
}

// oneOf answers with if the loaded value is one of the values, and otherwise if not.
func oneOf(values []uint32, with, otherwise uint32) (block []unix.SockFilter) {
	for i, value := range values {
		block = append(block, unix.SockFilter{Code: eq, K: value, Jt: uint8(len(values) - i)})
	}
	return append(block, answer(otherwise), answer(with))
}

// block refuses to set the setuid and setgid bits.
func (m *moder) block() []unix.SockFilter {
	block := onFlags(m.number, m.mode, unix.S_ISUID|unix.S_ISGID, refuse)
	if m.asks == 0 {
		return block
	}
	return onCall(m.number, append([]unix.SockFilter{loadArgument(m.flags), {Code: set, K: m.asks, Jf: 3}}, block[1:]...)...)
}

// onSocketPair refuses pairs of sockets that are not local, and, if no sockets are allowed, pairs of
// datagram sockets: these could send to other sockets.
func onSocketPair(isConnected bool) []unix.SockFilter {
	const kind = 0xf // of the type, without its flags
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
		return []uint32{unix.AF_UNIX} // it serves those who started it
	}
	return nil
}

// absentCalls returns the system calls that fail as if the kernel did not have them.
func (o *order) absentCalls() []uint32 {
	// What is in memory of a file that all runs share is for no run to see.
	absent := []uint32{unix.SYS_MEMFD_SECRET, unix.SYS_MINCORE, unix.SYS_CACHESTAT}
	if !o.Group {
		// What is written to such a file and not mapped is memory of no process:
		// only a cgroup counts it.
		absent = append(absent, unix.SYS_MEMFD_CREATE)
	}
	if !o.Namespaces {
		// They outlive every process that has them.
		absent = append(absent, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET)
	}
	if o.InPlace {
		absent = append(absent, unix.SYS_OPENAT2) // see modes
	}
	// The flags of clone3 are in memory, out of a filter's sight: without it,
	// libraries use clone.
	return append(absent, unix.SYS_CLONE3)
}

// filter returns the program of an order for an architecture. The first block for a call decides.
func (o *order) filter(arch uint32) []unix.SockFilter {
	blocks := [][]unix.SockFilter{{
		{Code: load, K: dataArch},
		{Code: eq, K: arch, Jt: 1},
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		{Code: load, K: dataNumber},
		// The x32 calls of amd64 have numbers of their own from here on.
		{Code: ge, K: 0x40000000, Jf: 1},
		answer(refuse),
	}}
	for _, number := range o.absentCalls() {
		blocks = append(blocks, onCall(number, answer(unknown)))
	}
	if o.InPlace {
		// A program of setuid on disk would be its owner's for everybody on the machine.
		for _, call := range modes() {
			blocks = append(blocks, call.block())
		}
	}
	if !o.Namespaces {
		// Limits on processor time or files of another process end it as a signal does,
		// and any process of the same user may set them.
		own := oneOf([]uint32{0}, allow, refuse)
		blocks = append(blocks, onCall(unix.SYS_PRLIMIT64, append([]unix.SockFilter{loadArgument(0)}, own...)...))
	}
	allowed := o.allowedFamilies()
	return slices.Concat(append(blocks,
		onSocketPair(len(allowed) == 0),
		onCall(unix.SYS_SOCKET, append([]unix.SockFilter{loadArgument(0)}, oneOf(allowed, allow, refuse)...)...),
		// What is in the memory of a file is not for a run to say, either: the advice counts as taken.
		onCall(unix.SYS_FADVISE64, answer(unix.SECCOMP_RET_ERRNO)),
		onFlags(unix.SYS_PREADV2, 5, unix.RWF_NOWAIT, unix.SECCOMP_RET_ERRNO|uint32(unix.EOPNOTSUPP)),
		// Huge pages are in no count of memory, not even in that of a cgroup.
		onFlags(unix.SYS_MEMFD_CREATE, 1, unix.MFD_HUGETLB, refuse),
		onFlags(unix.SYS_MMAP, 3, unix.MAP_HUGETLB, refuse),
		onFlags(unix.SYS_CLONE, 0, newNamespaces, refuse),
		oneOf(deniedCalls, refuse, allow),
	)...)
}

// restrictSyscalls installs the filter on the calling thread, and so on every
// process that it starts. The thread must have no_new_privs.
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
