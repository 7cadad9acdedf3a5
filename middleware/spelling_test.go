package middleware_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/middleware"
)

// A server may read names in any case of letters: what says how much a call may use goes in
// none, what its price depends on only as it is known here, and the rest as it is.
func TestLimitsInOtherLetters(t *testing.T) {
	extra := map[string]json.RawMessage{}
	for _, name := range []string{"N", "Max_Tokens", "max_to\u212aens", "MAX_COMPLETION_TOKENS", "n_predict", "fallbacks", "Service_Tier", "Web_Search_Options", "Options", "speed", "Novel", "novel"} {
		extra[name] = json.RawMessage(`1`)
	}
	s := &nativeModel{resp: text("fine")}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}})
	if _, err := m.GenerateContent(t.Context(), human("q"), middleware.WithParams(middleware.Params{Dialect: middleware.DialectChat, Extra: extra})); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(s.params.Extra)); !cmp.Equal(got, []string{"Novel", "novel", "speed"}) || len(extra) != 12 {
		t.Errorf("%q are sent, of %d", got, len(extra))
	}
}
