package goflags_test

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
)

// A run can only reuse what a user has compiled if it has the user's build flags.
func TestBuilds(t *testing.T) {
	if got := goflags.Builds("-trimpath -tags=x,y -count=3 -overlay=o.json -run=None -exec=sh -toolexec=sh"); got != "-buildvcs=false -trimpath -tags=x,y" {
		t.Error(got)
	}
}
