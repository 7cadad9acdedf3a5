package jail_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stepfall/stepfall/sdk/jail"
)

// hostile is run by the test binary when it plays the program under test. It returns 0 if it did harm, and 1 if it
// was stopped.
func hostile(what string, arguments []string) int {
	harm := hostileActs[what](arguments)
	fmt.Println(what, harm)
	if harm == nil {
		return 0
	}
	return 1
}

var hostileActs = map[string]func(arguments []string) error{
	"connect": func(a []string) error {
		connection, err := net.DialTimeout("tcp", a[0], time.Second)
		if err == nil {
			connection.Close()
		}
		return err
	},
	"docker": func(a []string) error {
		connection, err := net.DialTimeout("unix", a[0], time.Second)
		if err == nil {
			connection.Close()
		}
		return err
	},
	// A socket of a pair that never was a socket of one's own, and is sent from to another.
	"datagram": func(a []string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: a[0]})
	},
	"odd pair": func([]string) error {
		_, err := unix.Socketpair(unix.AF_TIPC, unix.SOCK_SEQPACKET, 0)
		if errors.Is(err, unix.EPERM) {
			return err
		}
		return nil // the kernel was asked, and may load a module for it
	},
	// The limits of the process above, which has the same user where nothing else is to be
	// had. It only looks: who may look may set them too.
	"limit": func([]string) error {
		return unix.Prlimit(os.Getppid(), unix.RLIMIT_CPU, nil, &unix.Rlimit{})
	},
	"hugepages": func([]string) error {
		_, err := unix.Mmap(-1, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB)
		_, file := unix.MemfdCreate("huge", unix.MFD_HUGETLB)
		if errors.Is(err, unix.EPERM) && (errors.Is(file, unix.EPERM) || errors.Is(file, unix.ENOSYS)) {
			return err
		}
		return nil // it has what no limit counts, or would where the machine keeps some
	},
	// What one run could keep for the next: the times of the machine's devices, and which pages
	// of a file are in memory.
	"device times": func([]string) error { return unix.Utimes("/dev/full", nil) },
	"page cache": func([]string) error {
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			return err
		}
		fd, page := int(self.Fd()), make([]byte, os.Getpagesize())
		evicted := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
		_, seen := unix.Preadv2(fd, [][]byte{page}, 0, unix.RWF_NOWAIT)
		mapped, err := unix.Mmap(fd, 0, len(page), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(page)), uintptr(unsafe.Pointer(&page[0]))); errno == 0 || seen == nil || evicted != nil {
			return nil // evicted is nil also where nothing is
		}
		return seen
	},
	"terminal": func([]string) error {
		fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.TIOCSTI, 'x')
	},
	"group": func([]string) error {
		if unix.Getpgrp() == unix.Getpid() || unix.Getpgrp() == 1 {
			return os.ErrPermission // its group is its own
		}
		return nil
	},
	"vsock": func([]string) error {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	},
	"read": func(a []string) error {
		_, err := os.ReadFile(a[0])
		return err
	},
	"write": func(a []string) error { return os.WriteFile(a[0], []byte("x"), 0o644) },
	"mount": func(a []string) error { return unix.Mount("tmpfs", a[0], "tmpfs", 0, "") },
	"namespace": func([]string) error {
		command := exec.Command("/bin/true")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
		return command.Run()
	},
	"ptrace": func([]string) error { return unix.PtraceSeize(os.Getppid()) },
	"root":   func([]string) error { return unix.Setuid(0x12345) },
	// The first process of the jail: its environment, memory and pipes.
	"supervisor": func([]string) error {
		for _, name := range []string{"environ", "mem", "fd/3", "fd/4"} {
			if f, err := os.OpenFile(filepath.Join("/proc", strconv.Itoa(os.Getppid()), name), os.O_RDWR, 0); err == nil {
				f.Close()
				return nil
			}
		}
		return os.ErrPermission
	},
	// The descriptors that the jail uses itself.
	"descriptors": func([]string) error {
		for fd := 3; fd < 32; fd++ {
			if _, err := unix.Write(fd, []byte(`{"End":"exit","ExitCode":0}`)); err == nil {
				return nil
			}
		}
		return os.ErrPermission
	},
	"kill": func([]string) error {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		_ = syscall.Kill(os.Getppid(), syscall.SIGSTOP)
		_ = syscall.Kill(1, syscall.SIGKILL)
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return os.ErrPermission
	},
	"fork": func([]string) error {
		for {
			command := exec.Command("/proc/self/exe", "hostile", "fork")
			_ = command.Start()
		}
	},
	"memory": func([]string) error {
		var held [][]byte
		for {
			block := make([]byte, 8<<20)
			for i := range block {
				block[i] = 1
			}
			held = append(held, block)
			_ = held
		}
	},
	// Many processes, each within its own limits.
	"memories": func([]string) error {
		for range 16 {
			_ = exec.Command("/proc/self/exe", "hostile", "hold").Start()
		}
		time.Sleep(time.Minute)
		return nil
	},
	"hold": func([]string) error {
		block := make([]byte, 40<<20)
		for i := range block {
			block[i] = 1
		}
		time.Sleep(time.Minute)
		return os.WriteFile("held", block, 0o644)
	},
	"disk": func([]string) error {
		for n := 0; ; n++ {
			if err := os.WriteFile(fmt.Sprintf("junk%d", n), make([]byte, 8<<20), 0o644); err != nil {
				return err
			}
			if n > 64 {
				return nil
			}
		}
	},
	// Memory that its processes share, a part of it in each.
	"shared": func([]string) error {
		var held [][]byte
		for range 64 {
			block, err := unix.Mmap(-1, 0, 16<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
		}
		time.Sleep(time.Second)
		return unix.Munmap(held[0])
	},
	// Memory that is only looked at: the tables of its pages are all that there is of it.
	"tables": func([]string) error {
		const size, step = 256 << 30, 2 << 20
		block, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			return err
		}
		seen := byte(0)
		for at := 0; at < size; at += step {
			seen |= block[at]
		}
		fmt.Println(seen)
		time.Sleep(time.Second)
		return nil
	},
	// Memory that is shared, filled a piece at a time, and let go of: it is in no process.
	"let go": func([]string) error { return letGo(-1, unix.MAP_ANONYMOUS) },
	// The same through a device.
	"zero": func([]string) error {
		f, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return letGo(int(f.Fd()), 0)
	},
	// Segments that are filled, let go, and mapped again by somebody who does not look.
	"mapped segment": func([]string) error {
		for range 64 {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 16<<20, unix.IPC_CREAT|0o600)
			if err != nil {
				return err
			}
			block, err := unix.SysvShmAttach(id, 0, 0)
			if err != nil {
				return err
			}
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			if err := unix.SysvShmDetach(block); err != nil {
				return err
			}
			if _, err := unix.SysvShmAttach(id, 0, 0); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		return nil
	},
	// Messages that nobody takes.
	"messages": func([]string) error {
		message := make([]byte, 8+8192)
		message[0] = 1
		sent := 0
		for sent < 500<<20 {
			id, _, errno := unix.Syscall(unix.SYS_MSGGET, uintptr(unix.IPC_PRIVATE), unix.IPC_CREAT|0o600, 0)
			if errno != 0 {
				return errno
			}
			for range 2 {
				if _, _, errno := unix.Syscall6(unix.SYS_MSGSND, id, uintptr(unsafe.Pointer(&message[0])), 8192, unix.IPC_NOWAIT, 0, 0); errno != 0 {
					return errno
				}
				sent += 8192
			}
		}
		time.Sleep(time.Second)
		return nil
	},
	// Files without a name.
	"tmpfile": func([]string) error {
		for range 64 {
			fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
			if err != nil {
				return err
			}
			for range 4 {
				if _, err := unix.Write(fd, make([]byte, 4<<20)); err != nil {
					return err
				}
			}
		}
		time.Sleep(time.Second)
		return nil
	},
	// Memory that is a file, and mapped by nobody.
	"memfd": func([]string) error {
		fd, err := unix.MemfdCreate("hidden", 0)
		if err != nil {
			return err
		}
		for range 64 {
			if _, err := unix.Write(fd, make([]byte, 16<<20)); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		return nil
	},
	// A System V segment that is filled and let go.
	"segment": func([]string) error {
		for range 64 {
			id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 16<<20, unix.IPC_CREAT|0o600)
			if err != nil {
				return err
			}
			block, err := unix.SysvShmAttach(id, 0, 0)
			if err != nil {
				return err
			}
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			if err := unix.SysvShmDetach(block); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		return nil
	},
	"files": func([]string) error {
		for n := range 200_000 {
			if n%1000 == 0 {
				if err := os.Mkdir(fmt.Sprintf("d%d", n/1000), 0o755); err != nil {
					return err
				}
			}
			f, err := os.Create(fmt.Sprintf("d%d/f%d", n/1000, n))
			if err != nil {
				return err
			}
			f.Close()
		}
		return nil
	},
	// A tree that is deeper than a path can say.
	"deep": func([]string) error {
		for range 2500 {
			if err := os.Mkdir("d", 0o755); err != nil {
				return err
			}
			if err := os.Chdir("d"); err != nil {
				return err
			}
		}
		return nil
	},
	"print": func([]string) error {
		for range 200 {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return err
			}
		}
		return nil
	},
	"loop": func([]string) error {
		for { //nolint:staticcheck // it is to spin
		}
	},
	"flood": func([]string) error {
		for {
			fmt.Println("flood flood flood flood flood flood flood flood flood flood flood flood flood flood")
		}
	},
	"escape": func(a []string) error {
		command := exec.Command("/bin/sh", "-c", "setsid sleep "+a[0]+" & setsid setsid sleep "+a[0]+" & sleep 0.1")
		return command.Run()
	},
	// Not hostile itself: the starter of a guest, about to be killed.
	"starter": func(a []string) error {
		j, err := jail.Open(context.Background(), jail.Options{NoNamespaces: a[0] == "none"})
		if err != nil {
			return err
		}
		command := exec.Command("/bin/sh", "-c", "setsid sleep "+a[1]+" & sleep "+a[1])
		if _, err := j.Start(context.Background(), command, &jail.Confinement{}); err != nil {
			return err
		}
		return command.Wait()
	},
	// Not hostile itself: a plugin that is about to be killed in the middle of a run.
	"plugin": func(a []string) error {
		j, err := jail.Open(context.Background(), jail.Options{Temp: a[0], NoNamespaces: len(a) > 3})
		if err != nil {
			return err
		}
		_, err = j.Run(context.Background(), &jail.Spec{
			Dir: a[1], Argv: []string{"sh", "-c", "setsid sleep " + a[2] + " & echo started; sleep " + a[2]},
			Env: []string{"PATH=/usr/bin:/bin"}, ReadOnly: system,
		})
		return err
	},
}

// letGo fills shared memory piece by piece and unmaps each piece.
func letGo(fd, flags int) error {
	block, err := unix.Mmap(fd, 0, 1<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|flags)
	if err != nil {
		return err
	}
	for at := 0; at < len(block); at += 4 << 20 {
		piece := block[at : at+4<<20]
		for i := 0; i < len(piece); i += 4096 {
			piece[i] = 1
		}
		if err := unix.Madvise(piece, unix.MADV_DONTNEED); err != nil {
			return err
		}
	}
	time.Sleep(time.Second)
	return unix.Munmap(block)
}
