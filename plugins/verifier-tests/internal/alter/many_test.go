package alter_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
)

// TestTimeOfManyTests: an answer that is allowed to change tests can add hundreds of thousands of them.
func TestTimeOfManyTests(t *testing.T) {
	if testing.Short() {
		t.Skip("times say nothing under the race detector")
	}
	times := map[int]time.Duration{}
	for _, many := range []int{20_000, 160_000} {
		var text strings.Builder
		for i := range many {
			fmt.Fprintf(&text, "#[test]\nfn t%06d() {\n}\n", i)
		}
		request := alter.Request{Way: alter.End, Files: []alter.Source{{Path: "tests/many.rs", Text: text.String()}}}
		start := time.Now()
		altered := request.Alter()
		times[many] = time.Since(start)
		if len(altered) != 1 || len(altered[0].Tests) != many {
			t.Fatalf("%d files", len(altered))
		}
	}
	t.Log(times)
	if times[160_000] > 32*max(times[20_000], 100*time.Millisecond) {
		t.Errorf("eight times as many tests: %v", times)
	}
}
