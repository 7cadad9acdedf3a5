package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/scripted"
)

// serveWithPages starts "stepfall serve --view" and returns the addresses of the gateway and the operator's pages.
func serveWithPages(t *testing.T, policy string, flags ...string) (gateway, pages string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out, w := io.Pipe()
	var said bytes.Buffer
	code := make(chan int, 1)
	go func() {
		args := append([]string{"serve", "--policy", path, "--addr", "127.0.0.1:0", "--view", "127.0.0.1:0"}, flags...)
		code <- cli.Run(ctx, args, cli.Streams{Out: w, Err: &said})
		w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if got := <-code; got != cli.ExitOK {
			t.Errorf("exit code %d: %s", got, &said)
		}
	})
	lines, address := bufio.NewReader(out), regexp.MustCompile(`https?://\S+`)
	for _, one := range []*string{&gateway, &pages} {
		line, err := lines.ReadString('\n')
		if err != nil {
			cancel()
			t.Fatalf("%v: %q", err, line)
		}
		*one = address.FindString(line)
	}
	return gateway, pages
}

func page(t *testing.T, client *http.Client, url string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// An operator's key is not sent in the clear over a network if the gateway has a certificate.
func TestServeViewByHTTPS(t *testing.T) {
	known := httptest.NewTLSServer(nil) // whose client knows the certificate
	defer known.Close()
	pair, dir := known.TLS.Certificates[0], t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(files[i], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OPERATOR_KEY", "the operator's key")
	_, pages := serveWithPages(t, fmt.Sprintf(servedPolicy, "http://127.0.0.1:1")+"trace { file = \"traces.jsonl\" }\n", "--view", "127.0.0.1:0=OPERATOR_KEY", "--tls", strings.Join(files, ","))
	if status, body := page(t, known.Client(), pages, "Authorization", "Bearer the operator's key"); status != http.StatusOK || !strings.HasPrefix(pages, "https://") {
		t.Errorf("%s: %d %s", pages, status, body)
	}
	_, pages = serveWithPages(t, fmt.Sprintf(servedPolicy, "http://127.0.0.1:1")+"trace { file = \"traces.jsonl\" }\n", "--tls", strings.Join(files, ","))
	if status, body := page(t, http.DefaultClient, pages); status != http.StatusOK || !strings.HasPrefix(pages, "http://") {
		t.Errorf("on this machine, %s: %d %s", pages, status, body)
	}
}

// The operator sees the steps of a running gateway, its caps and plugins; nobody else does.
func TestServeView(t *testing.T) {
	models, err := scripted.Start(scripted.Options{Respond: func(context.Context, *scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "good day", Usage: &scripted.Usage{InputTokens: 900, OutputTokens: 100}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer models.Close()
	t.Setenv("OPERATOR_KEY", "the operator's key")
	t.Setenv("SHORT_KEY", "short")
	for _, database := range []string{`file = "traces.jsonl"`, `database = "traces.db"`} {
		policy := strings.Replace(fmt.Sprintf(servedPolicy, models.URL()), "run_usd = 0.0035", "tenant_usd = 4", 1) + dearer + "trace { " + database + " }\n"
		t.Run(database, func(t *testing.T) {
			gateway, pages := serveWithPages(t, policy, "--view", "127.0.0.1:0=OPERATOR_KEY")
			if status, body := chat(t, gateway, "run-1"); status != http.StatusOK {
				t.Fatalf("%d %s", status, body)
			}
			if status, body := page(t, http.DefaultClient, pages); status != http.StatusUnauthorized || strings.Contains(body, "run-1") {
				t.Errorf("without the key: %d %s", status, body)
			}
			key := []string{"Authorization", "Bearer the operator's key"}
			if status, body := page(t, http.DefaultClient, pages, "Authorization", "Bearer another's key"); status != http.StatusUnauthorized || strings.Contains(body, "run-1") {
				t.Errorf("with another key: %d %s", status, body)
			}
			if status, _ := page(t, http.DefaultClient, pages, append(key, "Origin", "https://other.test")...); status != http.StatusForbidden {
				t.Errorf("from another page: %d", status)
			}
			// Steps are recorded behind the answer.
			end := time.Now().Add(time.Minute)
			for body := ""; !strings.Contains(body, "run-1"); time.Sleep(20 * time.Millisecond) {
				var status int
				if status, body = page(t, http.DefaultClient, pages+"/steps", key...); status != http.StatusOK || time.Now().After(end) {
					t.Fatalf("the steps: %d %s", status, body)
				}
			}
			status, body := page(t, http.DefaultClient, pages, key...)
			if status != http.StatusOK || !strings.Contains(body, "4.00") || !strings.Contains(body, "large") {
				t.Errorf("the first page has no cap of 4 USD, or no baseline: %d %s", status, body)
			}
		})
		t.Run(database+", on this machine", func(t *testing.T) {
			_, pages := serveWithPages(t, policy)
			if status, body := page(t, http.DefaultClient, pages); status != http.StatusOK || !strings.Contains(body, "Opening") {
				t.Errorf("the address opens with %d %s", status, body)
			}
			if status, _ := page(t, http.DefaultClient, pages); status != http.StatusForbidden {
				t.Errorf("the address opens again, with %d", status)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "policy.hcl")
	policy := fmt.Sprintf(servedPolicy, models.URL()) + dearer
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"--view 127.0.0.1:0=NO_KEY":            "the variable holds no key",
		"--view 127.0.0.1:0=SHORT_KEY":         "at least 8 characters",
		"--view 0.0.0.0:0":                     "require a key",
		"--view nowhere":                       "--view: ",
		"--view 127.0.0.1:0=OPERATOR_KEY -v=5": "-v",
	} {
		var said bytes.Buffer
		args := append([]string{"serve", "--policy", path, "--addr", "127.0.0.1:0"}, strings.Fields(flags)...)
		if code := cli.Run(t.Context(), args, cli.Streams{Out: io.Discard, Err: &said}); code != cli.ExitUsage || !strings.Contains(said.String(), want) {
			t.Errorf("%s: exit code %d, %s", flags, code, &said)
		}
	}
	// A store has the steps, whatever the policy records.
	t.Run("store", func(t *testing.T) {
		gateway, pages := serveWithPages(t, policy, "--view", "127.0.0.1:0=OPERATOR_KEY", "--store", filepath.Join(t.TempDir(), "s.db"), "--open")
		if status, body := chat(t, gateway, "run-1"); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		end := time.Now().Add(time.Minute)
		for body := ""; !strings.Contains(body, "run-1"); time.Sleep(20 * time.Millisecond) {
			var status int
			if status, body = page(t, http.DefaultClient, pages+"/steps", "Authorization", "Bearer the operator's key"); status != http.StatusOK || time.Now().After(end) {
				t.Fatalf("the steps: %d %s", status, body)
			}
		}
	})
	// A policy that records nothing has nothing to show.
	var said bytes.Buffer
	if code := cli.Run(t.Context(), []string{"serve", "--policy", path, "--addr", "127.0.0.1:0", "--view", "127.0.0.1:0"}, cli.Streams{Out: io.Discard, Err: &said}); code == cli.ExitOK || !strings.Contains(said.String(), `--view needs recorded traces: add trace { file = "traces.jsonl" }`) {
		t.Errorf("exit code %d, %s", code, &said)
	}
}
