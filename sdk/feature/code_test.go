package feature_test

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/feature"
)

func TestCodeAgrees(t *testing.T) {
	for _, test := range []struct {
		name, a, b string
		want       float64
	}{
		{"comments and space of Go", "x := 1 // one\ny()", "x:=1\n\ny( )", 1},
		{"a fence", "```go\nx := 1\n```", "x := 1", 1},
		{"comments and space of Python", "def f(a):  # half\n    return a // 2\n", "def f( a ):\n\n  return a//2", 1},
		{"a division is no comment", "def f(a, b):\n    return a // b", "def f(a, b):\n    return a // 2", 0},
		{"depth", "def f(a):\n    if a:\n        g()\n    h()", "def f(a):\n    if a:\n        g()\n        h()", 0},
		{"a hash in quotes", "import x\nx.f('#a') # b", "import x\nx.f('#c')", 0},
		{"a hash in quotes, and a comment", "```sh\necho \"#1\" # one\n```", "```sh\necho \"#1\"\n```", 1},
		{"nothing", "", "", 0},
		{"comments alone", "```py\n# a\n```", "```py\n# b\n```", 0},
	} {
		if got := feature.Agree(feature.Code, test.a, test.b); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
