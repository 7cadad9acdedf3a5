package verify

import "testing"

// Code that cannot be using what its tests declare is not built once more without them.
func TestMayUseTests(t *testing.T) {
	const tests = "package m\n\nimport \"testing\"\n\ntype fake struct{}\n\nvar _, expected = 1, 2\n\nfunc TestF(*testing.T) {}\n"
	for _, c := range []struct {
		code, tests string
		want        bool
	}{
		{"package m\n\nfunc F() int { _ = 1; return 0 }\n", tests, false},
		{"package m\n\nfunc F() int { return expected }\n", tests, true},
		{"package m\n\nvar f fake\n", tests, true},
		{"package m\n\n//go:linkname hidden m.TestF\nfunc hidden()\n", tests, true},
		{"package m\n\n//go:embed *\nvar all embed.FS\n", tests, true},
		{"//go:build !new\n\npackage m\n", tests, true},
		{"package m\n\nimport \"C\"\n", tests, true},
		{"package m\n\nfunc F() {}\n", "package m\n\nfunc (T) Close() {}\n", true},
		{"package m\n\nfunc F() {}\n", "no Go", true},
		{"package m\n\nfunc TestF() {}\n", "package m_test\n\nfunc TestF() {}\n", false},
	} {
		if got := mayUseTests([]byte(c.code), [][]byte{[]byte(c.tests)}); got != c.want {
			t.Errorf("%q beside %q: %t", c.code, c.tests, got)
		}
	}
}
