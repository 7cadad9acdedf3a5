package heap_test

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/heap"
)

const variable = "STEPFALL_TEST_HEAP"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		os.Exit(collections(n << 20))
	}
	os.Exit(m.Run())
}

var sink []byte

// collections keeps that many bytes, allocates half a gigabyte of garbage, and returns the number of collections.
func collections(keep int) int {
	heap.Roomy()
	kept := make([]byte, keep)
	for range 1 << 13 {
		sink = make([]byte, 1<<16)
	}
	runtime.KeepAlive(kept)
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return int(min(stats.NumGC, 250))
}

func TestCollections(t *testing.T) {
	run := func(keep int, env ...string) int {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "GOGC=") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		// With one processor the collector has its share of it, however busy the machine is.
		cmd.Env = append(append(cmd.Env, env...), "GOMAXPROCS=1", variable+"="+strconv.Itoa(keep))
		_ = cmd.Run() // its status is the count
		return cmd.ProcessState.ExitCode()
	}
	// How many there are is the collector's business.
	small, large, usual := run(0), run(200), run(0, "GOGC=100")
	if small == 0 || 3*small > usual {
		t.Errorf("half a gigabyte was collected %d times, with GOGC=100 %d times", small, usual)
	}
	if large > 2*small {
		t.Errorf("beside 200 MB that stay it was collected %d times, without %d times", large, small)
	}
}
