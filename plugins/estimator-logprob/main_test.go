package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestMain lets the test binary double as the plugin.
func TestMain(m *testing.M) {
	// The kit also calls it as a command, describe for one; what is not a flag of
	// the test must never run the tests again.
	if os.Getenv(wire.CookieKey) == wire.CookieValue || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Test(t, plugintest.Options{
		Path:   self,
		Config: map[wire.Role]map[string]any{wire.QualityEstimator: {"classifier": trained(t)}},
	})
}
