package provider

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/sdk/redact"
)

type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A key that a server writes into an answer is removed from what is read, and nothing else is changed. Lines are
// passed on as they arrive.
func TestAnswersHaveNoKeys(t *testing.T) {
	const key = "sk-proj-0123456789abcdef"
	for name, c := range map[string]struct{ key, text, want string }{
		"none":    {key, `{"content": "ok &amp; \u0041"}`, `{"content": "ok &amp; \u0041"}`},
		"itself":  {key, `{"content": "it is ` + key + `."}`, `{"content": "it is ` + redact.Mark + `."}`},
		"escaped": {key, `data: {"content": "\u0073k-proj-&#48;12345%36789abcdef"}` + "\n\ndata: [DONE]\n\n", `data: {"content": "` + redact.Mark + `"}` + "\n\ndata: [DONE]\n\n"},
		"encoded": {key, `{"content": "` + base64.StdEncoding.EncodeToString([]byte(key)) + `"}`, `{"content": "` + redact.Mark + `"}`},
		"a part":  {key, `data: {"content": "` + key[4:] + `"}` + "\n\n", `data: {"content": "` + key[4:] + `"}` + "\n\n"},
		"a word":  {"ollama", `{"content": "ask ollama"}`, `{"content": "ask ollama"}`},
	} {
		for way, reader := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader, "with its end": iotest.DataErrReader} {
			transport := answering(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(reader(strings.NewReader(c.text)))}, nil
			})
			llm, err := New(Options{Model: "m", BaseURL: "http://localhost/", APIKey: c.key, Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			m := llm.(*embeddingModel)
			resp, err := m.post(t.Context(), &exchange{}, m.address, m.header, dialect.Object{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.HasPrefix(string(got), c.want[:len(c.want)-2]) || strings.Contains(string(got), key) || len(got) > len(c.want)+2 {
				t.Errorf("%s, %s: %q, want %q; %v", name, way, got, c.want, err)
			}
		}
	}
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		from, to := io.Pipe()
		body := &redactedBody{ReadCloser: from, secrets: redact.New(key)}
		go func() {
			_, _ = io.WriteString(to, "data: 1"+end+"da")
			_ = to.Close()
		}()
		line := make([]byte, 64)
		if n, err := body.Read(line); err != nil || string(line[:n]) != "data: 1"+end {
			t.Errorf("%q, %v", line[:n], err)
		}
	}
}
