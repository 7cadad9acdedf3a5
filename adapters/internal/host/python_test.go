//go:build unix

package host_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/host"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// judging is the verifier of a plugin in Python that asks a model.
const judging = `

class Judge:
    FIELDS = []

    def __init__(self, config, log):
        pass

    def verify(self, request, report):
        answer = None
        for _ in range(int(request.answer.text)):
            answer = ask_model("judge", "good?", max_output_tokens=5, system="Be strict.")
        return Verdict("passed", score=1.0, evidence=answer.text)


PLUGIN = Plugin("words", "0.1.0", "Asks a model.", verifier=Judge, calls_models=True)

if __name__ == "__main__":
    main(PLUGIN)
`

func TestPythonPluginAsksModels(t *testing.T) {
	program := pythonPlugin(t, "verifier")
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "if __name__")
	if !ok {
		t.Fatal("the template has another end than this test knows")
	}
	text = []byte(strings.Replace(head, "import Field,", "import ask_model, Field,", 1) + judging)
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	settings := host.PluginConfig{Path: program, Models: wire.ModelLimits{Calls: 2}}
	h, err := host.New(host.Config{Models: quarter(), Plugins: map[string]host.PluginConfig{"words": settings}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	v, err := h.Verifier("judge", "words", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "2"}})
		if err != nil || got.Evidence != "yes" || got.CostUSD != 0.5 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	_, err = v.Verify(within(t, 2*time.Minute), &sdk.VerifyRequest{Query: query("q"), Answer: &sdk.Answer{Text: "3"}})
	var call *host.CallError
	if !errors.As(err, &call) || !strings.Contains(err.Error(), "as many as the policy allows") || sdk.SpentUSD(err) != 0.5 {
		t.Errorf("got %v", err)
	}
}
