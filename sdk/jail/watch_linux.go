package jail

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
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
			processes, memory := measure(o.Namespaces)
			switch {
			case o.Limits.Memory > 0 && memory > o.Limits.Memory:
				reason = EndMemory
			case o.Limits.Processes > 0 && processes >= o.Limits.Processes:
				reason = EndProcesses
			default:
				continue
			}
		}
		end.Store(reason)
		killAll(o.Namespaces)
		return
	}
}

// measure counts the processes of the run and the bytes that they hold. Pages
// shared by several processes count once for each, file pages do not count.
func measure(namespaces bool) (processes int, bytesHeld int64) {
	for _, pid := range members(namespaces) {
		processes++
		statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
		if err != nil {
			continue
		}
		fields := bytes.Fields(statm)
		if len(fields) < 3 {
			continue
		}
		resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
		bytesHeld += (resident - shared) * int64(os.Getpagesize())
	}
	return processes, bytesHeld
}

// members lists the processes of the run, this one apart.
func members(namespaces bool) []int {
	self := os.Getpid()
	if !namespaces {
		return descendants(self)
	}
	var pids []int
	for _, pid := range allProcesses() {
		if pid != self {
			pids = append(pids, pid)
		}
	}
	return pids
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

// descendants lists the processes below pid. Orphans are children of the
// subreaper, so that nothing gets away by a double fork.
func descendants(pid int) []int {
	children := map[int][]int{}
	for _, p := range allProcesses() {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p), "stat"))
		if err != nil {
			continue
		}
		// The name, in parentheses, may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
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
	alive := 0
	if namespaces {
		for _, pid := range members(true) {
			if !zombie(pid) {
				alive++
			}
		}
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return alive
	}
	// What is being forked meanwhile is found in the next round.
	for round := range 100 {
		killed := 0
		for _, pid := range descendants(os.Getpid()) {
			if zombie(pid) {
				continue
			}
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

func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) == 0 || fields[0][0] == 'Z' || fields[0][0] == 'X'
}
