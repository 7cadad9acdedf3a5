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

// watchEvery is how often the whole run is measured.
const watchEvery = 25 * time.Millisecond

// watch ends the run when it exceeds what is allowed to all of its processes together.
// A limit of zero is none.
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

// measure counts the processes of the run and their memory: their own, and what they share, once for each
// while that is little, then as the kernel divides it. Pages of files on disk do not count.
func measure(o *order) (processes int, bytesHeld int64) {
	const (
		little = 8 << 20 // less is the text of programs
		entry  = 8       // bytes in a table for each page
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
	// isClose reports whether more would be too much, where what is held is not.
	isClose := func(more int64) bool { return limit > 0 && bytesHeld <= limit && bytesHeld+more > limit }
	// The tables of pages count for as much as they can be only where that is too much.
	if isClose(shared + tables) {
		bytesHeld += sumOf(pids, "status", "VmPTE:")
	}
	if isClose(shared) {
		shared = sumOf(sharing, "smaps_rollup", "Pss_Shmem:")
	}
	if o.Namespaces && !o.isUnsandboxed() {
		// Those that a process has mapped and never looked at are in no process's count.
		shared = max(shared, sysvBytes("shm", 14)) + sysvBytes("msg", 3)
	}
	if limit > 0 && !o.Group && o.hidesMemory(pids, limit) {
		return len(pids), limit + 1
	}
	return len(pids), bytesHeld + shared
}

// pagesOf returns the pages that a process has mapped, has in memory, and those of the latter that are of
// files and shared memory; 0 if unknown.
func pagesOf(pid int) (virtual, resident, others int64) {
	statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err == nil {
		_, _ = fmt.Sscan(string(statm), &virtual, &resident, &others)
	}
	return virtual, resident, others
}

// sumOf adds up a line of kilobytes of a file in /proc/PID over processes.
func sumOf(pids []int, file, name string) (sum int64) {
	for _, pid := range pids {
		sum += kilobytes(filepath.Join("/proc", strconv.Itoa(pid), file), name)
	}
	return sum
}

// hidesMemory reports whether processes of the run have filled shared memory and released its pages,
// which then no process and no file system counts: the machine has more shared memory than before the
// run, by more than the limit and what the run has written to files in memory, and a process has such
// memory mapped. A cgroup counts it, so that this is for runs without one.
func (o *order) hidesMemory(pids []int, limit int64) bool {
	if o.isUnsandboxed() || kilobytes("/proc/meminfo", "Shmem:")-o.shmem <= limit+o.memoryFileBytes() {
		return false
	}
	for _, pid := range pids {
		maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
		// Of MAP_ANONYMOUS, and of the device, which is the same.
		if err == nil && bytes.Contains(maps, []byte("/dev/zero")) {
			return true
		}
	}
	return false
}

// kilobytes returns the bytes of a line "NAME 12 kB" of a file; 0 when it is not there.
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

// memoryFileBytes returns an upper bound of the bytes that the run has written to files in memory.
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

// sysvBytes adds up a column of bytes of the namespace's System V segments or messages.
func sysvBytes(kind string, column int) int64 {
	// It may have tens of thousands of lines: no more than one is held at a time.
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
				n, _ := strconv.ParseInt(string(field), 10, 64) // the headline is none
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

// descendants returns the processes below pid. Orphans are children of the subreaper, so that a double
// fork does not escape.
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

// killAll kills every process of the run but this one and returns how many were
// alive at first.
func killAll(namespaces bool) int {
	if namespaces {
		alive := len(slices.DeleteFunc(members(true), isZombie))
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return alive
	}
	alive := 0
	// What is being forked meanwhile is found in the next round.
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
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}
