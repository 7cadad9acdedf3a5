// Package heap lets the heap of a server grow before it is collected.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// room is the least growth of the heap.
const room = 64 << 20

// Roomy has the heap grow by 64 MB between two collections, or to twice its size where
// that is more, which is Go's own rule. A server keeps little from one request to the
// next: by that rule alone it collects many times a second, a sixth of its time. Where GOGC or
// GOMEMLIMIT is in the environment it changes nothing.
func Roomy() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		afterEach(debug.SetGCPercent(-1))
	}
}

// afterEach sets the percentage, which is percent now, and again after each collection.
func afterEach(percent int) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	var kept uint64
	for _, s := range samples {
		kept += s.Value.Uint64()
	}
	// The percentage is of all that is scanned, and at least of 4 MB, Go's smallest heap.
	want := max(100, int(room*100/max(kept, 4<<20)))
	if want < percent*4/5 || want > percent*5/4 {
		debug.SetGCPercent(want)
		percent = want
	}
	runtime.AddCleanup(new([4]*int), afterEach, percent)
}
