package goflags_test

import (
	"testing"

	"github.com/stepfall/stepfall/plugins/internal/goflags"
)

// What a user has compiled is of use to a run that has the user's flags of builds.
func TestBuilds(t *testing.T) {
	if got := goflags.Builds("-trimpath -tags=x,y -count=3 -overlay=o.json -run=None -exec=sh -toolexec=sh"); got != "-buildvcs=false -trimpath -tags=x,y" {
		t.Error(got)
	}
}
