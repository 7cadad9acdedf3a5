package outcome_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// A few kilobytes of compressed data with an endless line must not fill the memory.
func TestAttackOutcomesCompressed(t *testing.T) {
	for name, head := range map[string]string{
		"csv":  "query_id,model,quality,cost\nq1,",
		"json": `{"query_id": "`,
		"none": "",
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "json" {
				t.Skip("reads 64 MiB")
			}
			var file bytes.Buffer
			w, err := gzip.NewWriterLevel(&file, gzip.BestSpeed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(head)); err != nil {
				t.Fatal(err)
			}
			block := []byte(strings.Repeat("a", 1<<20))
			for range 70 {
				if _, err := w.Write(block); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := outcome.Read(&file, "bomb.gz", outcome.Options{}); err == nil || !strings.Contains(err.Error(), "a line of more than 64 MiB") || len(err.Error()) > 1000 {
				t.Errorf("err = %.1000v", err)
			}
		})
	}
}

func TestAttackOutcomesOfAnotherKind(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct{ text, want string }{
		"JSON array":         {`[{"query_id": "q"}]`, "a JSON array: want one object a line"},
		"UTF-16":             {"\xff\xfeq\x00u\x00", "save the file as UTF-8"},
		"carriage returns":   {"query_id,model,quality\rq,m,1\rq2,m,1\r", "want line feeds"},
		"a long number":      {"query_id,model,quality\nq,m," + long + "\n", "is not a number"},
		"a long model":       {"query_id,model,quality\nq," + long + ",1\n", "a name of 1048576 bytes, more than 4096"},
		"a long group":       {"query_id,model,quality,group\nq,m,1," + long + "\n", "a name of 1048576 bytes, more than 4096"},
		"a long query twice": {"query_id,model,quality\n" + long + ",m,1\n" + long + ",m,1\n", "second outcome of model"},
	} {
		if _, err := outcome.Read(strings.NewReader(c.text), "file.csv", outcome.Options{}); err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: err = %.1000v", name, err)
		}
	}
}

func TestAttackOutcomesColumns(t *testing.T) {
	var header strings.Builder
	header.WriteString("query_id,model,quality")
	for i := range 500_000 {
		fmt.Fprintf(&header, ",c%d", i)
	}
	_, err := outcome.Read(strings.NewReader(header.String()+"\n"), "wide.csv", outcome.Options{})
	if err == nil || !strings.Contains(err.Error(), "500003 columns, more than 10000") {
		t.Errorf("err = %.1000v", err)
	}
}

func TestAttackOutcomesNested(t *testing.T) {
	for _, text := range []string{strings.Repeat(`{"a":`, 100_000), strings.Repeat("[", 100_000), `{"query_id":"q","meta":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"} {
		if _, err := outcome.Read(strings.NewReader(text), "deep.jsonl", outcome.Options{}); err == nil || len(err.Error()) > 1000 {
			t.Errorf("err = %.1000v", err)
		}
	}
}
