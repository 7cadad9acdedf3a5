package savings

import (
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// maxShadows is how many steps wait for the trace of their shadow, or a shadow for that of
// its step: more than can be under way at once.
const maxShadows = 2000

// shadowKey names a shadowed step, and which of its two traces is meant.
type shadowKey struct {
	tenant, query string
	isShadow      bool
}

// shadowAnswer is the answer that one of the two traces has, and what the model's tokens cost.
type shadowAnswer struct {
	call  sdk.Call
	price *sdk.Price
}

// join compares the answer that a step in the mode shadow returned with that of its shadow,
// when both are known. Steps are drawn for a shadow by chance; those whose shadow ends
// without the baseline are of the kind in which its answer is missing later.
func (a *Account) join(t *sdk.Trace) {
	key := shadowKey{t.Tenant, t.QueryID, t.Mode == middleware.ShadowAlternative}
	c := ChosenCall(t)
	if t.QueryID == "" || c == nil || !key.isShadow && t.Mode != string(middleware.Shadow) {
		return
	}
	own := shadowAnswer{call: *c}
	own.call.Answer = ""
	for i := range t.Decisions[0].Models {
		if b := &t.Decisions[0].Models[i]; b.Model == c.Model {
			own.price = b.Price
		}
	}
	other := shadowKey{t.Tenant, t.QueryID, !key.isShadow}
	found, known := a.shadowSteps[other]
	if !known {
		if a.shadowSteps == nil {
			a.shadowSteps = map[shadowKey]shadowAnswer{}
		}
		if len(a.shadowSteps) >= maxShadows { // one or another is forgotten
			for name := range a.shadowSteps {
				delete(a.shadowSteps, name)
				break
			}
		}
		a.shadowSteps[key] = own
		return
	}
	delete(a.shadowSteps, other)
	if key.isShadow {
		own, found = found, own
	}
	if own.price != nil && own.call.Model != found.call.Model {
		a.of(own.call.Model).reference(found.call.Model).compareDrawn(groupOf(t), own.price, &own.call, &found.call, 1)
	}
}
