package plugintest_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugintest"
)

// A test binary that is started as a plugin and runs its tests must not start itself endlessly.
func TestTheKitDoesNotRunInsideAProgramUnderTest(t *testing.T) {
	t.Setenv("STEPFALL_PLUGIN_UNDER_TEST", "1")
	_, err := plugintest.Run(t.Context(), plugintest.Options{Path: "/bin/true"})
	if err == nil || !strings.Contains(err.Error(), "plugintest.Main") {
		t.Errorf("got %v", err)
	}
}
