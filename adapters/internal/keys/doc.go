// Package keys lets holders of keys into a gateway, and no others: it stands before the
// gateway's handler, in each replica.
//
//	guard := keys.NewGuard(shared.Store, shared.Leased)
//	http.ListenAndServe(":8080", guard.Wrap(g, g.Refuse))
//
// Keys are in a store, by the digest of their secret. One that is made, revoked or
// changed is so in all replicas within a second. While the store is away, a key that
// was used here within the last minute goes on, as far as its limits are leased.
//
// # Limits
//
// Requests and tokens of each minute, and requests under way at once, hold in all
// replicas together. A request that has no room is answered with 429 and Retry-After.
// Tokens are counted when they are known: the request that passes the limit is still
// answered, the next ones of the minute are not. The key's cap in dollars is held by the
// ledger of the step ([store.WithKey]).
//
// # Spending
//
// GET /v1/spend returns what was spent, by=day,key,tenant,policy,model, since= and until=
// a day. A key sees its own, a key of an operator everything, and may select tenant= and key=.
package keys
