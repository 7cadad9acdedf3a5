package main

import (
	"os"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/plugintest"
)

// TestMain lets the test binary double as the plugin.
func TestMain(m *testing.M) {
	jail.Main()
	plugintest.Main(m, main)
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Test(t, plugintest.Options{
		Path:   self,
		Config: map[wire.Role]map[string]any{wire.Verifier: {"command": []any{"sh", "-c", `echo '{"outcome": "passed"}'`}}},
	})
}
