package wire_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
)

// An answer is bounded as it comes out of its compression, in bytes.
func TestBoundsOfCompressedAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer   string
		tooLarge bool
	}{
		"small":     {`{"a":[1,2,3]}`, false},
		"long text": {`{"a":"` + strings.Repeat("a", 900) + `"}`, false},
		"too long":  {`{"a":"` + strings.Repeat("a", 1100) + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				_, _ = io.WriteString(z, tt.answer)
			}))
			defer s.Close()
			resp, err := wire.Post(t.Context(), wire.Client(&wire.Transport{MaxAnswer: 1000}), s.URL, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if errors.Is(err, wire.ErrTooLarge) != tt.tooLarge || !tt.tooLarge && (err != nil || string(got) != tt.answer) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
