package provider_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// The size limit of an answer counts decompressed bytes.
func TestBoundsOfCompressedAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer   string
		tooLarge bool
	}{
		"small":     {`{"data":[],"a":[1,2,3]}`, false},
		"long text": {`{"data":[],"a":"` + strings.Repeat("a", 900) + `"}`, false},
		"too long":  {`{"data":[],"a":"` + strings.Repeat("a", 1100) + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				_, _ = io.WriteString(z, tt.answer)
			}))
			defer s.Close()
			m, err := provider.New(provider.Options{Model: "m", BaseURL: s.URL, MaxAnswer: 1000})
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := m.(middleware.Embedder).Embed(t.Context(), json.RawMessage(`{"input":"a"}`))
			if (err != nil && strings.Contains(err.Error(), "the answer is too large")) != tt.tooLarge || !tt.tooLarge && (err != nil || string(got) != tt.answer) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
