package verify_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// state is the folder for pre-flights and what is compiled of verifiers that name none:
// a tree that several of them judge has one pre-flight.
var state string

func TestMain(m *testing.M) {
	jail.Main()
	os.Unsetenv("GOFLAGS") // -trimpath, as CI sets it, hides from a test where it lies
	var err error
	if state, err = os.MkdirTemp("", "verify"); err != nil {
		panic(err)
	}
	if everyAttack() { // between its runs, a verdict waits for the kernel
		_ = flag.Set("test.parallel", strconv.Itoa(runtime.NumCPU()+1))
	}
	code := m.Run()
	if code != 0 && !everyAttack() {
		fmt.Printf("this sample of the attacks again: STEPFALL_ATTACKS=%d\n", turn)
	}
	_ = os.RemoveAll(state)
	os.Exit(code)
}

// openJail probes the machine once for all tests.
var openJail = sync.OnceValues(func() (*jail.Jail, error) {
	return jail.Open(context.Background(), jail.Options{Temp: state})
})

// everyAttack reports whether every attack is run, as in CI, rather than a sample of each kind.
func everyAttack() bool { return os.Getenv("STEPFALL_ATTACKS") == "all" }

// turn chooses the sample: a number in STEPFALL_ATTACKS, or else the day, so that in time each
// attack is tried where not every one is.
var turn = func() int {
	if n, err := strconv.Atoi(os.Getenv("STEPFALL_ATTACKS")); err == nil && n >= 0 {
		return n
	}
	return int(time.Now().Unix() / (24 * 60 * 60))
}()

// The kinds of attacks that each language has. In a sample each kind has another language,
// and each language another kind.
const (
	plain = iota
	less
	around
	objects
	kinds
)

// The languages.
const (
	inGo = iota
	inPython
	inPytest
	inNode
	inScripts
)

// inTurn skips a kind of attacks in a language if not every attack is run and the sample has another kind in it.
func inTurn(t *testing.T, kind, language int) {
	t.Helper()
	if !everyAttack() && (turn+language)%kinds != kind {
		t.Skipf("STEPFALL_ATTACKS=%d has it", turn-(turn+language)%kinds+kind+kinds)
	}
}

// rotated returns the attacks starting from the one whose turn it is, or unchanged if every attack is run.
func rotated[T any](list []T) []T {
	if everyAttack() {
		return list
	}
	from := turn / kinds % len(list) // by turn alone, a kind of four rows would always have the same one
	return slices.Concat(list[from:], list[:from])
}

// sample returns the first n attacks of a kind, or all if every attack is run.
func sample[T any](list []T, n int) []T {
	if everyAttack() {
		return list
	}
	return list[:min(n, len(list))]
}

// sampleOf returns n attacks of a map, or all if every attack is run.
func sampleOf[T any](all map[string]T, n int) map[string]T {
	some := map[string]T{}
	for _, name := range sample(rotated(slices.Sorted(maps.Keys(all))), n) {
		some[name] = all[name]
	}
	return some
}

// onlyInCI skips a test that takes many seconds if not every attack is run.
func onlyInCI(t *testing.T) {
	t.Helper()
	if !everyAttack() {
		t.Skip("STEPFALL_ATTACKS is not all")
	}
}

// write creates a work tree with the files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// withDefaults returns a configuration with the defaults of a policy. Reruns of -1 means none.
func withDefaults(config verify.Config) verify.Config {
	config.Timeout, config.Reruns, config.Preflight = cmp.Or(config.Timeout, time.Minute), max(0, cmp.Or(config.Reruns, 1)), true
	return config
}

func open(t *testing.T, config verify.Config) *verify.Verifier {
	t.Helper()
	return openAsIs(t, withDefaults(config))
}

// openBlind is open without a pre-flight.
func openBlind(t *testing.T, config verify.Config) *verify.Verifier {
	t.Helper()
	config = withDefaults(config)
	config.Preflight = false
	return openAsIs(t, config)
}

func openAsIs(t *testing.T, config verify.Config) *verify.Verifier {
	t.Helper()
	config.CacheDir = cmp.Or(config.CacheDir, state)
	j, err := openJail()
	if err != nil {
		t.Fatal(err)
	}
	return verify.New(config, j)
}

func judge(t *testing.T, v *verify.Verifier, query *sdk.Query, text string) *sdk.Verdict {
	t.Helper()
	verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: &sdk.Answer{Model: "m", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %.2f in %s: %s", verdict.Outcome, verdict.Score, verdict.Duration, verdict.Evidence)
	return verdict
}

// long skips a test that judges many answers in sequence. In short runs each kind of command has one attack, and
// TestParallel judges several concurrently.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("judges for seconds")
	}
}
