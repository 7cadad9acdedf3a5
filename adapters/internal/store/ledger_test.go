package store

import (
	"errors"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

// Messages about caps are in dollars, although accounts count nano-dollars.
func TestMoneyIsSaidInDollars(t *testing.T) {
	full := &RefusedError{Account: KeyAccount("k1"), Left: 4_906_000, Asked: 10_034_000}
	err := error(&shortage{full: full})
	if want := `key "k1" has 0.004906 USD neither spent nor reserved, and up to 0.010034 USD are needed: budget exhausted`; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got, ok := errors.AsType[*RefusedError](err); !ok || got != full || !errors.Is(err, sdk.ErrBudgetExhausted) {
		t.Error("the error has lost its account")
	}
}
