//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugintest"
)

// The test plugin of this package conforms to the protocol.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the plugins' own tests run the kit under the race detector")
	}
	plugintest.Test(t, plugintest.Options{
		Path: filepath.Join(pluginDir(t), "test"),
		// Programs built with the race detector sleep for a second before they exit.
		Env: []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"},
	})
}
