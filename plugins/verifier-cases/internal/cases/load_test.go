package cases

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		by, want, got string
		same          bool
	}{
		{"lines", "a \nb\n\n", "a\nb", true},
		{"lines", "a\nb", "a\n\nb", false},
		{"lines", "", "\n", true},
		{"exact", "a\n", "a", false},
		{"words", "1 2\n3", "1\n2 3", true},
		{"words", "1.0", "1", false},
		{"numbers", "1.0 x", "1.0000001 x", true},
		{"numbers", "1.0", "nan", false},
		{"numbers", "1", "1.1", false},
		{"numbers", "inf", "inf", true},
		{"json", `{"a": [1, 2.0000001]}`, `{"a":[1,2]}`, true},
		{"json", `{"a": 1}`, `{"a": 1, "b": 2}`, false},
		{"json", `[1]`, `[true]`, false},
		{"json", `1`, ``, false},
		{"any_order", "a\nb", "b\na", true},
		{"any_order", "a\nb", "b\nb", false},
	} {
		if why := (Compare{By: test.by, Tolerance: 1e-6}).Texts(test.want, test.got); (why == "") != test.same {
			t.Errorf("%+v: %q", test, why)
		}
	}
}

// Invalid rows, such as two lists or a surplus bracket, are reported.
func TestRowsAreReadToTheEnd(t *testing.T) {
	for text, want := range map[string]int{
		`[{"input": "1"}, {"input": "2"}]` + "\n": 2, "{\"input\": \"1\"}\n{\"input\": \"2\"}\n": 2, "": 0,
		`[{"input": "1"}] [{"input": "2"}]`: -1, `[{"input": "1"}] x`: -1, `{"input": "1"}] {"input": "2"}`: -1, `{"input": "1"} {"inp`: -1,
	} {
		rows, err := readRows(bufio.NewReader(strings.NewReader(text)))
		if (err != nil) != (want < 0) || err == nil && len(rows) != want {
			t.Errorf("%s: %d rows, %v", text, len(rows), err)
		}
	}
}

// Files of cases are not texts necessarily: "exact" compares their bytes.
func TestCasesKeepTheirBytes(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"1.in": "\xff", "1.out": "a\xfe"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	c := &set.Cases[0]
	if why := (Compare{By: "exact"}).Texts(*c.Expect.Stdout, "a\xfe"); why != "" || c.Stdin != "\xff" {
		t.Errorf("input %q, expected %q: %s", c.Stdin, *c.Expect.Stdout, why)
	}
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(`{"question_id": "a", "public_test_cases": "[{\"input\": \"1\", \"output\": \"2\", \"testtype\": \"stdin\"}]"}`))
	f.Add([]byte(`{"inputs": [[1, 2]], "outputs": [[3]], "fn_name": "f"}`))
	f.Add([]byte(`{"private_test_cases": "eJxrYJmqwQAAA/sBBQ=="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := readRows(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		for i := range rows {
			list, err := rows[i].cases()
			if err != nil {
				continue
			}
			for j := range list {
				list[j].Check(&Output{Stdout: "x"}, Compare{})
				if list[j].Call != nil {
					if _, err := json.Marshal(list[j].Call); err != nil {
						t.Errorf("a call that cannot be made: %v", err)
					}
				}
			}
		}
	})
}

func FuzzUnpickle(f *testing.F) {
	f.Add([]byte{0x80, 4, 'X', 1, 0, 0, 0, 'a', 0x94, '.'})
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = unpickle(data) })
}
