package runner

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Events that were cut out of a report accuse nobody: the report is unfit.
func TestGoReportThatIsCut(t *testing.T) {
	const events = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
	whole := (&goTest{}).Read(nil, &jail.Result{Stdout: []byte(events)})
	if len(whole.Tampering) != 1 || whole.Unfit != "" {
		t.Errorf("a test that was never begun: %+v", whole)
	}
	cut := (&goTest{}).Read(nil, &jail.Result{Stdout: []byte(events), Truncated: true})
	if len(cut.Tampering) > 0 || !strings.Contains(cut.Unfit, "output_kib") {
		t.Errorf("a cut report: %+v", cut)
	}
}
