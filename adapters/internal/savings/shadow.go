package savings

import (
	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// maxShadows bounds the steps and shadows that wait for their counterpart: more than can run at once.
const maxShadows = 2000

// shadowKey identifies one of the two traces of a shadowed step.
type shadowKey struct {
	tenant, query string
	isShadow      bool
}

// shadowAnswer is the answer in one of the two traces, with the model's price.
type shadowAnswer struct {
	call  sdk.Call
	price *sdk.Price
}

// joinShadow compares the answer of a step in the mode shadow with that of its shadow, once both are known. Steps get
// a shadow at random; those whose shadow does not end with the baseline are of the kind in which the baseline's
// answer is missing later.
func (a *Account) joinShadow(t *sdk.Trace) {
	key := shadowKey{t.Tenant, t.QueryID, t.Mode == middleware.ShadowAlternative}
	c := ChosenCall(t)
	if t.QueryID == "" || c == nil || !key.isShadow && t.Mode != string(middleware.Shadow) {
		return
	}
	own := shadowAnswer{call: *c}
	own.call.Answer = ""
	if b := t.Belief(c.Model); b != nil {
		own.price = b.Price
	}
	other := shadowKey{t.Tenant, t.QueryID, !key.isShadow}
	found, known := a.shadowSteps[other]
	if !known {
		lookup.MakeRoom(&a.shadowSteps, maxShadows)
		a.shadowSteps[key] = own
		return
	}
	delete(a.shadowSteps, other)
	if key.isShadow {
		own, found = found, own
	}
	if own.price != nil && own.call.Model != found.call.Model {
		a.of(own.call.Model).reference(sourceOf(&found.call)).compare(groupOf(t), own.price, &own.call, &found.call, 1)
	}
}
