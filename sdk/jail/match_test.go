package jail_test

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, file string
		want          bool
	}{
		{"junit.xml", "junit.xml", true},
		{"junit.xml", "junitaxml", false},
		{"out/*.xml", "out/a.xml", true},
		{"out/*.xml", "out/deep/a.xml", false},
		{"**/out/TEST-*.xml", "out/TEST-a.B.xml", true},
		{"**/out/TEST-*.xml", "core/x/out/TEST-a.xml", true},
		{"**/out/TEST-*.xml", "about/TEST-a.xml", false},
		{"**/out/**/*.xml", "a/out/test/deep/a.xml", true},
		{"*.xml", "a(.xml", true},
	} {
		if got := jail.Match(c.pattern, c.file); got != c.want {
			t.Errorf("%s, %s: %v", c.pattern, c.file, got)
		}
	}
}
