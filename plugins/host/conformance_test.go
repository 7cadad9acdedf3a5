//go:build unix

package host_test

import (
	"path/filepath"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugintest"
)

// The test plugin of this package is a plugin like any other.
func TestConformance(t *testing.T) {
	plugintest.Test(t, plugintest.Options{Path: filepath.Join(pluginDir(t), "test")})
}
