package feature

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

func TestWithin(t *testing.T) {
	tokens := []sdk.TokenLogProb{{Token: "call add("}, {Token: `{"a":`}, {Token: " 1}"}, {Token: ")"}}
	spell := func(ts []sdk.TokenLogProb) string {
		var b strings.Builder
		for _, t := range ts {
			b.WriteString(t.Token)
		}
		return b.String()
	}
	if got := spell(tokensOf(tokens, `{"a": 1}`)); got != `{"a": 1}` {
		t.Errorf("got %q", got)
	}
	if got := spell(tokensOf(tokens, `add({"a"`)); got != `call add({"a":` {
		t.Errorf("a part that ends inside tokens gives %q", got)
	}
	if tokensOf(tokens, "mul") != nil || tokensOf(tokens, "") != nil {
		t.Error("a part that is not there has tokens")
	}
}
