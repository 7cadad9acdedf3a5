//go:build unix

package cli_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A call in flight when its server is killed stays reserved until it expires, and is then spent and unsettled, which
// the operator can release.
func TestCallOfAKilledServer(t *testing.T) {
	var isCalled atomic.Bool
	end := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		isCalled.Store(true)
		<-end
	}))
	defer upstream.Close()
	defer close(end)
	dir := t.TempDir()
	policy, path := filepath.Join(dir, "policy.hcl"), filepath.Join(dir, "fleet.db")
	capped := strings.Replace(servedPolicy, "{ run_usd = 0.0035 }", "{\n  run_usd    = 0.0035\n  tenant_usd = 0.5\n}", 1)
	if err := os.WriteFile(policy, fmt.Appendf(nil, capped, upstream.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	var notes strings.Builder
	run := func(args ...string) []byte {
		cmd := exec.Command(os.Args[0], append(args, "--store", path)...)
		cmd.Args[0] = "stepfall"
		notes.Reset()
		cmd.Stderr = &notes
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return out
	}
	type amounts struct {
		Spent     float64 `json:"spent_usd"`
		Reserved  float64 `json:"reserved_usd"`
		Unsettled float64 `json:"unsettled_usd"`
	}
	type keyAmounts struct {
		amounts
		Tenant amounts   `json:"tenant_account"`
		Until  time.Time `json:"reserved_until"`
	}
	type account struct {
		amounts
		Kind string `json:"kind"`
		Name string `json:"name"`
	}
	accounts := func(args ...string) (list []account) {
		if err := json.Unmarshal(run(append(args, "--json")...), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	balance := func(args ...string) keyAmounts {
		var list []keyAmounts
		if err := json.Unmarshal(run(append(args, "--json")...), &list); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}
	secret := strings.TrimSpace(string(run("key", "create", "agents", "--tenant", "blue", "--cap", "1")))
	s := &service{args: []string{"serve", "--addr", "127.0.0.1:0", "--policy", policy, "--store", path}}
	if !s.start(t) {
		t.Fatalf("no gateway: %s", s.log)
	}
	defer s.kill(syscall.SIGKILL)
	go func() {
		req, err := http.NewRequest(http.MethodPost, s.address()+"/v1/chat/completions", strings.NewReader(`{"model":"stepfall","messages":[{"role":"user","content":"Is it?"}]}`))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		if resp, err := http.DefaultClient.Do(req); err == nil { // it ends with the server
			resp.Body.Close()
		}
	}()
	for until := time.Now().Add(20 * time.Second); !isCalled.Load(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the model is not asked: %s", s.log)
		}
	}
	s.kill(syscall.SIGKILL)
	held := balance("key", "ls").Reserved
	got := balance("key", "ls")
	if got.amounts != (amounts{Reserved: held}) || held == 0 || got.Tenant != got.amounts {
		t.Errorf("after the kill %+v, want something reserved of the key and of the tenant", got)
	}
	if left := time.Until(got.Until); left <= 0 || left > 15*time.Minute {
		t.Errorf("reserved until %v, %v from now", got.Until, left)
	}
	want := regexp.MustCompile(fmt.Sprintf(`(?m)^│ blue +0\.0+ +%.6f +0\.0+ +%s`, held, got.Until.Local().Format("2006-01-02 15:04:05")))
	if list := run("key", "ls"); !want.Match(list) {
		t.Errorf("no line of the tenant like %s:\n%s", want, list)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	const quarter = 15 * time.Minute
	if _, err := db.Exec("UPDATE holds SET until_ns = until_ns - $1", int64(quarter)); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if got := balance("key", "ls"); got.amounts != (amounts{Spent: held, Unsettled: held}) || got.Tenant != got.amounts {
		t.Errorf("15 minutes later %+v, want %v spent and unsettled", got, held)
	}
	unsettled := amounts{Spent: held, Unsettled: held}
	if got, want := accounts("key", "ls", "--by", "account"), []account{{unsettled, "key", "agents"}, {unsettled, "tenant", "blue"}}; !slices.Equal(got, want) {
		t.Errorf("accounts %+v, want %+v", got, want)
	}
	if got, want := accounts("key", "set", "--release", "--tenant", "blue"), []account{{amounts{}, "tenant", "blue"}}; !slices.Equal(got, want) {
		t.Errorf("released %+v, want %+v", got, want)
	}
	if got := balance("key", "ls"); got.amounts != unsettled || got.Tenant != (amounts{}) {
		t.Errorf("after the tenant's release %+v, want %v unsettled of the key alone", got, held)
	}
	if got := balance("key", "set", "agents", "--release"); got.amounts != (amounts{}) {
		t.Errorf("released %+v, want nothing", got)
	}
	if want := fmt.Sprintf("released %.6f USD; 0.000000 USD reserved", held); !strings.Contains(notes.String(), want) {
		t.Errorf("it says %q, want %q", notes.String(), want)
	}
}
