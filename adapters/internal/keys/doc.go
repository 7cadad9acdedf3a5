// Package keys admits only requests with a valid key to a gateway. It runs in front of the
// gateway's handler, in each replica.
//
//	guard := keys.NewGuard(shared.Store, shared.Leased)
//	http.ListenAndServe(":8080", guard.Wrap(g, g.Refuse))
//
// Keys are stored by the digest of their secret. A new, revoked or changed key takes effect in
// all replicas within a second. While the store is unavailable, a key that was used here within
// the last minute remains valid, as far as its limits are leased.
//
// # Limits
//
// Limits on requests and tokens per minute, and on concurrent requests, hold across all
// replicas. A request that exceeds them is answered with 429 and Retry-After.
// Tokens are counted once they are known: the request that exceeds the limit is still
// answered, further ones in that minute are not. The key's cap in dollars is enforced by the
// ledger of the step ([store.WithKey]).
//
// # Spending
//
// GET /v1/spend returns the spending by=day,key,tenant,policy,model, limited to days by since= and
// until=. A key sees its own spending. An operator's key sees everything, and can filter by tenant= and key=.
package keys
