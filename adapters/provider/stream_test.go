package provider

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"plain":              {"data: a\n\ndata: b\n\n", []string{"a", "b"}},
		"carriage returns":   {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"old Macs":           {"data: a\rdata: b\r\rdata: c\r\r", []string{"a\nb", "c"}},
		"all ends":           {"data: a\r\ndata: b\r\n\r\ndata: c\n\rdata: d\r\r\n", []string{"a\nb", "c", "d"}},
		"names and comments": {": hello\n\nevent: x\nid: 1\ndata: a\n\n: ping\n\ndata: b\n\n", []string{"a", "b"}},
		"several lines":      {"data: a\ndata: b\n\n", []string{"a\nb"}},
		"no space":           {"data:a\n\n", []string{"a"}},
		"empty":              {"data:\n\ndata: a\n\n", []string{"", "a"}},
		"no last line":       {"data: a\n\ndata: b", []string{"a", "b"}},
		"long lines":         {"data: " + long + "\n\ndata: b\n\ndata: " + long + "\n\n", []string{long, "b", long}},
		"nothing":            {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.HalfReader(strings.NewReader(c.stream)), iotest.OneByteReader(strings.NewReader(c.stream)), iotest.DataErrReader(strings.NewReader(c.stream))} {
				var got []string
				err := events(r, false, func(data []byte) error {
					got = append(got, string(data))
					return nil
				})
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%v %s", err, diff)
				}
			}
		})
	}
	broken := errors.New("broken")
	n := 0
	err := events(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), false, func([]byte) error {
		n++
		return nil
	})
	if n != 1 || !errors.Is(err, broken) {
		t.Errorf("a stream that breaks has %d events: %v", n, err)
	}
}

// An event is available as soon as its line is complete, not only when the next one arrives.
func TestEventsComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		seen := make(chan string)
		go func() {
			_ = events(r, false, func(data []byte) error {
				seen <- string(data)
				return nil
			})
		}()
		for _, want := range []string{"a", "b"} {
			if _, err := io.WriteString(w, "data: "+want+"\r\r"); err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		_ = w.Close()
	})
}
