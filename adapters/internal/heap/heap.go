// Package heap reduces the number of garbage collections of a server with a small heap.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// room is the least growth of the heap between collections.
const room = 64 << 20

// Roomy lets the heap grow by 64 MB between two collections, or to twice its size where that is more, as by Go's
// default. A server keeps little from one request to the next: with the default alone it collects many times a
// second, which takes a sixth of its time. Roomy does nothing if GOGC or GOMEMLIMIT is set.
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
	// The percentage applies to everything that is scanned, and at least to 4 MB, Go's smallest heap.
	want := max(100, int(room*100/max(kept, 4<<20)))
	if want < percent*4/5 || want > percent*5/4 {
		debug.SetGCPercent(want)
		percent = want
	}
	runtime.AddCleanup(new([4]*int), afterEach, percent)
}
