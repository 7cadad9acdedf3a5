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

// families are the address families that a socket may have in a network namespace:
// local ones, and the internet, which is empty there. AF_VSOCK, for one, is not
// confined by any namespace. Where there is none, no socket may be made at all: one
// could reach the network, or a daemon such as Docker's by its file.
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

// moder is a system call that gives a file its mode.
type moder struct {
	number uint32
	// mode is the argument with the mode. Where asks is not 0, it counts only when the
	// argument flags has some of these.
	mode, flags, asks uint32
}

// modes returns the calls that give files their modes. That of openat2 is in memory,
// out of a filter's sight.
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

// pairs refuses pairs of sockets that are not local, and, where no socket may be made,
// those of datagrams: either of the two could be sent from to another's socket.
func pairs(connected bool, refuse uint32) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		and  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		eq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K

		kind = 0xf // of the type, without its flags
	)
	block := []unix.SockFilter{
		{Code: load, K: dataArg0},
		{Code: eq, K: unix.AF_UNIX, Jt: 1},
		{Code: ret, K: refuse},
	}
	if connected {
		block = append(block,
			unix.SockFilter{Code: load, K: dataArg0 + argSize},
			unix.SockFilter{Code: and, K: kind},
			unix.SockFilter{Code: eq, K: unix.SOCK_STREAM, Jt: 2},
			unix.SockFilter{Code: eq, K: unix.SOCK_SEQPACKET, Jt: 1},
			unix.SockFilter{Code: ret, K: refuse},
		)
	}
	block = append(block, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	return slices.Insert(block, 0, unix.SockFilter{Code: eq, K: unix.SYS_SOCKETPAIR, Jf: uint8(len(block))})
}

// restrictSyscalls installs the filter on the calling thread, and so on every
// process that it starts. The thread must have no_new_privs.
func restrictSyscalls(o *order) error {
	families := families
	switch {
	case o.Namespaces:
	case o.Guest != nil:
		families = []uint32{unix.AF_UNIX} // it serves those who started it
	default:
		families = nil
	}
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		eq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ge   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		set  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K

		refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		allow   = unix.SECCOMP_RET_ALLOW
	)
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
	filter := []unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: eq, K: arch, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: load, K: dataNumber},
		// The x32 calls of amd64 have numbers of their own from here on.
		{Code: ge, K: 0x40000000, Jf: 1},
		{Code: ret, K: refuse},
		// The flags of clone3 are in memory, out of a filter's sight: without it,
		// libraries use clone.
		{Code: eq, K: unix.SYS_CLONE3, Jf: 1},
		{Code: ret, K: unknown},
		{Code: eq, K: unix.SYS_CLONE, Jf: 4},
		{Code: load, K: dataArg0},
		{Code: set, K: newNamespaces, Jf: 1},
		{Code: ret, K: refuse},
		{Code: ret, K: allow},
		{Code: eq, K: unix.SYS_SOCKET, Jf: uint8(3 + len(families))},
		{Code: load, K: dataArg0},
	}
	// Inserted before the call is told apart further: a jump stays within a few. What is
	// inserted later is looked at first.
	// Huge pages are in no count of memory, not even in that of a cgroup.
	for _, call := range []struct{ number, flags, huge uint32 }{{unix.SYS_MMAP, 3, unix.MAP_HUGETLB}, {unix.SYS_MEMFD_CREATE, 1, unix.MFD_HUGETLB}} {
		filter = slices.Insert(filter, 6,
			unix.SockFilter{Code: eq, K: call.number, Jf: 4},
			unix.SockFilter{Code: load, K: dataArg0 + argSize*call.flags},
			unix.SockFilter{Code: set, K: call.huge, Jf: 1},
			unix.SockFilter{Code: ret, K: refuse},
			unix.SockFilter{Code: ret, K: allow},
		)
	}
	// Nor is it for a run to say: the advice counts as taken.
	filter = slices.Insert(filter, 6,
		unix.SockFilter{Code: eq, K: unix.SYS_FADVISE64, Jf: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO},
		unix.SockFilter{Code: eq, K: unix.SYS_PREADV2, Jf: 4},
		unix.SockFilter{Code: load, K: dataArg0 + argSize*5},
		unix.SockFilter{Code: set, K: unix.RWF_NOWAIT, Jf: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)},
		unix.SockFilter{Code: ret, K: allow},
	)
	for _, number := range absent {
		filter = slices.Insert(filter, 6, unix.SockFilter{Code: eq, K: number, Jf: 1}, unix.SockFilter{Code: ret, K: unknown})
	}
	filter = slices.Insert(filter, 6, pairs(len(families) == 0, refuse)...)
	if !o.Namespaces {
		// Limits on processor time or files of another process end it as a signal does,
		// and any process of the same user may set them.
		filter = slices.Insert(filter, 6,
			unix.SockFilter{Code: eq, K: unix.SYS_PRLIMIT64, Jf: 4},
			unix.SockFilter{Code: load, K: dataArg0},
			unix.SockFilter{Code: eq, K: 0, Jt: 1},
			unix.SockFilter{Code: ret, K: refuse},
			unix.SockFilter{Code: ret, K: allow},
		)
	}
	if o.InPlace {
		// A program of setuid on disk would be its owner's for everybody on the machine.
		filter = slices.Insert(filter, 6, unix.SockFilter{Code: eq, K: unix.SYS_OPENAT2, Jf: 1}, unix.SockFilter{Code: ret, K: unknown})
		for _, call := range modes() {
			block := []unix.SockFilter{
				{Code: eq, K: call.number, Jf: 6},
				{Code: load, K: dataArg0 + argSize*call.flags},
				{Code: set, K: call.asks, Jf: 3},
				{Code: load, K: dataArg0 + argSize*call.mode},
				{Code: set, K: unix.S_ISUID | unix.S_ISGID, Jf: 1},
				{Code: ret, K: refuse},
				{Code: ret, K: allow},
			}
			if call.asks == 0 {
				block = slices.Delete(block, 1, 3)
				block[0].Jf = 4
			}
			filter = slices.Insert(filter, 6, block...)
		}
	}
	for i, family := range families {
		filter = append(filter, unix.SockFilter{Code: eq, K: family, Jt: uint8(len(families) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: refuse}, unix.SockFilter{Code: ret, K: allow})
	for i, number := range deniedCalls {
		filter = append(filter, unix.SockFilter{Code: eq, K: number, Jt: uint8(len(deniedCalls) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: allow}, unix.SockFilter{Code: ret, K: refuse})

	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
