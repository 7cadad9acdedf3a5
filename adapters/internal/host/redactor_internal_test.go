package host

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// A failed call does not make a new redactor, which takes milliseconds per secret.
func TestRedactorIsMadeOnce(t *testing.T) {
	const secret = "correct-horse-battery"
	i := &instance{host: &Host{infos: map[string]*wire.Info{}}, plugin: "p", settings: PluginConfig{Env: map[string]string{"A_KEY": secret, "B_KEY": "another-secret-value"}}}
	first := i.redactor()
	if got := i.redactMessage("it said " + secret); strings.Contains(got, secret) {
		t.Errorf("%q", got)
	}
	if i.redactor() != first {
		t.Error("made anew")
	}
	i.settings.Env["A_KEY"] = "staple-for-the-battery"
	if got := i.redactMessage("it said staple-for-the-battery"); strings.Contains(got, "staple") {
		t.Errorf("another secret: %q", got)
	}
}
