package wire_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
)

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"plain":              {"data: a\n\ndata: b\n\n", []string{"a", "b"}},
		"carriage returns":   {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"names and comments": {": hello\n\nevent: x\nid: 1\ndata: a\n\n: ping\n\ndata: b\n\n", []string{"a", "b"}},
		"several lines":      {"data: a\ndata: b\n\n", []string{"a\nb"}},
		"no space":           {"data:a\n\n", []string{"a"}},
		"empty":              {"data:\n\ndata: a\n\n", []string{"", "a"}},
		"no last line":       {"data: a\n\ndata: b", []string{"a", "b"}},
		"long lines":         {"data: " + long + "\n\ndata: b\n\ndata: " + long + "\n\n", []string{long, "b", long}},
		"nothing":            {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.stream), iotest.HalfReader(strings.NewReader(c.stream)), iotest.DataErrReader(strings.NewReader(c.stream))} {
				var got []string
				events := wire.NewEvents(r)
				for events.Next() {
					got = append(got, string(events.Data()))
				}
				if diff := cmp.Diff(c.want, got); diff != "" || events.Err() != nil {
					t.Errorf("%v %s", events.Err(), diff)
				}
				if events.Next() {
					t.Error("there is more after the end")
				}
			}
		})
	}
	broken := errors.New("broken")
	events := wire.NewEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)))
	if !events.Next() || events.Next() || !errors.Is(events.Err(), broken) {
		t.Errorf("a stream that breaks: %v", events.Err())
	}
}
