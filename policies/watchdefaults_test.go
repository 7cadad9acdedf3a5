package policies

import (
	"testing"
	"time"
)

func TestFilesAreCheckedTwiceASecond(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 500 * time.Millisecond, time.Minute: time.Minute} {
		w, err := NewWatcher("library:local-first", WatchOptions{Load: LoadOptions{Env: []string{}}, Interval: given})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		if w.o.Interval != want {
			t.Errorf("%s is %s, want %s", given, w.o.Interval, want)
		}
	}
}
