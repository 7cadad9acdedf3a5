package jail

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchEvery is the interval of the watchdog.
const watchEvery = 25 * time.Millisecond

// watch ends the run when all of its processes together exceed a limit. A limit of zero means none.
func watch(o *order, every time.Duration, end *atomic.Value, stop <-chan struct{}) {
	var wall <-chan time.Time
	if o.Limits.Wall > 0 {
		timer := time.NewTimer(o.Limits.Wall)
		defer timer.Stop()
		wall = timer.C
	} else if o.Limits.Memory <= 0 && o.Limits.Processes <= 0 {
		return
	}
	o.shmem = kilobytes("/proc/meminfo", "Shmem:")
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var reason End
		select {
		case <-stop:
			return
		case <-wall:
			reason = EndTimeout
		case <-tick.C:
			processes, memory := measure(o)
			switch {
			case o.Limits.Memory > 0 && memory > o.Limits.Memory:
				reason = EndMemory
			case o.Limits.Processes > 0 && processes >= o.Limits.Processes:
				reason = EndProcesses
			default:
				continue
			}
		}
		end.CompareAndSwap(nil, reason)
		killAll(o.Namespaces)
		return
	}
}

// measure counts the processes of the run and their memory in bytes: private memory and shared memory.
// The latter counts once per process, unless that exceeds the limit; then it is divided as the kernel
// does (Pss). Pages of files on disk do not count.
func measure(o *order) (processes int, bytesHeld int64) {
	const (
		little = 8 << 20 // less is usually program text
		entry  = 8       // bytes of a page table entry
	)
	pids, page, tables, limit := members(o.Namespaces), int64(os.Getpagesize()), int64(0), o.Limits.Memory
	var sharing []int
	for _, pid := range pids {
		virtual, resident, others := pagesOf(pid)
		bytesHeld += (resident - others) * page
		tables += virtual * entry
		if others*page > little {
			sharing = append(sharing, pid)
		}
	}
	shared := sumOf(sharing, "status", "RssShmem:")
	// isClose reports whether more bytes would exceed the limit, while those counted so far do not.
	isClose := func(more int64) bool { return limit > 0 && bytesHeld <= limit && bytesHeld+more > limit }
	// Read the real size of the page tables only if their largest possible size would exceed the limit.
	if isClose(shared + tables) {
		bytesHeld += sumOf(pids, "status", "VmPTE:")
	}
	if isClose(shared) {
		shared = sumOf(sharing, "smaps_rollup", "Pss_Shmem:")
	}
	if o.Namespaces && !o.isUnsandboxed() {
		// Segments whose pages no living process has touched are in no process's count.
		shared = max(shared, sysvBytes("shm", 14)) + sysvBytes("msg", 3)
	}
	if limit > 0 && !o.Group && o.hidesMemory(pids, limit) {
		return len(pids), limit + 1
	}
	return len(pids), bytesHeld + shared
}

// pagesOf returns the numbers of pages that a process has mapped, that are resident, and that are
// resident and belong to files or shared memory; 0 if unknown.
func pagesOf(pid int) (virtual, resident, others int64) {
	statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err == nil {
		_, _ = fmt.Sscan(string(statm), &virtual, &resident, &others)
	}
	return virtual, resident, others
}

// sumOf adds up the value of one line in a file of /proc/PID, in bytes, over processes.
func sumOf(pids []int, file, name string) (sum int64) {
	for _, pid := range pids {
		sum += kilobytes(filepath.Join("/proc", strconv.Itoa(pid), file), name)
	}
	return sum
}

// hidesMemory reports whether processes of the run have filled shared memory and unmapped its pages,
// which no process and no file system then counts: since the run began, the machine's shared memory has
// grown by more than the limit plus what the run has written to tmpfs, and a process has such memory
// mapped. It is for runs without a cgroup, which would count it.
func (o *order) hidesMemory(pids []int, limit int64) bool {
	if o.isUnsandboxed() || kilobytes("/proc/meminfo", "Shmem:")-o.shmem <= limit+o.memoryFileBytes() {
		return false
	}
	for _, pid := range pids {
		maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
		// Both MAP_ANONYMOUS memory and mappings of the device are listed so.
		if err == nil && bytes.Contains(maps, []byte("/dev/zero")) {
			return true
		}
	}
	return false
}

// kilobytes returns the value of the line "NAME 12 kB" of a file, in bytes, or 0 if there is none.
func kilobytes(path, name string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return n << 10
		}
	}
	return 0
}

// memoryFileBytes returns an upper bound of the bytes that the run has written to tmpfs.
func (o *order) memoryFileBytes() int64 {
	var stat unix.Statfs_t
	sum := int64(0)
	if o.Namespaces && unix.Statfs("/", &stat) == nil && stat.Type == unix.TMPFS_MAGIC {
		sum += int64(stat.Blocks-stat.Bfree) * stat.Bsize
	}
	for _, dir := range o.writtenFolders() {
		if unix.Statfs(dir, &stat) == nil && stat.Type == unix.TMPFS_MAGIC {
			return sum + o.Limits.Disk
		}
	}
	return sum
}

// sysvBytes adds up a column of the namespace's System V segments or messages, in bytes.
func sysvBytes(kind string, column int) int64 {
	// The file can have tens of thousands of lines: read one at a time.
	file, err := os.Open("/proc/sysvipc/" + kind)
	if err != nil {
		return 0
	}
	defer file.Close()
	sum := int64(0)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		at := 0
		for field := range bytes.FieldsSeq(lines.Bytes()) {
			if at++; at == column+1 {
				n, _ := strconv.ParseInt(string(field), 10, 64) // 0 for the header line
				sum += n
				break
			}
		}
	}
	return sum
}

func members(namespaces bool) []int {
	self := os.Getpid()
	if !namespaces {
		return descendants(self)
	}
	return slices.DeleteFunc(allProcesses(), func(pid int) bool { return pid == self })
}

func allProcesses() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descendants returns the processes below pid. The subreaper adopts orphans, so a double fork does not
// escape.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range allProcesses() {
		if _, parent, ok := processState(p); ok {
			children[parent] = append(children[parent], p)
		}
	}
	var below []int
	queue := children[pid]
	for len(queue) > 0 {
		below = append(below, queue[0])
		queue = append(queue[1:], children[queue[0]]...)
	}
	return below
}

// killAll kills every process of the run except this one, and returns how many were alive at first.
func killAll(namespaces bool) int {
	if namespaces {
		alive := len(slices.DeleteFunc(members(true), isZombie))
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return alive
	}
	alive := 0
	// Processes forked during one round are found in the next.
	for round := range 100 {
		killed := 0
		for _, pid := range slices.DeleteFunc(descendants(os.Getpid()), isZombie) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		if round == 0 {
			alive = killed
		}
		if killed == 0 {
			return alive
		}
	}
	return alive
}

func isZombie(pid int) bool {
	state, _, ok := processState(pid)
	return !ok || state == 'Z' || state == 'X'
}

func processState(pid int) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, can contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}
