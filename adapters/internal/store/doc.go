// Package store is the state that several processes share: caps, traces, keys, open circuits, conversations and
// pacing. [Store] is the interface of an engine; the rest works with every engine: reservations on accounts, with
// leases for hot accounts ([LeasedAccounts]), and a buffer for traces while the engine is unavailable ([Buffer]).
//
// Two packages implement it: sqlite needs no server and serves one machine; postgres serves any number of machines.
//
//	s, err := postgres.Open(ctx, "postgres://stepfall@db/stepfall")
//	if err != nil { ... }
//	defer s.Close()
//	accounts := store.NewLeasedAccounts(s, store.LeaseOptions{})
//	defer accounts.Close()
//	ledger := accounts.Ledger(step.Caps{TenantUSD: 100})
//
// # Money
//
// Accounts count integers: billionths of a US dollar ([NanoUSD]), or requests, tokens, streams. A reservation is one
// conditional update that rejects what does not fit, never a read followed by a write. Settling is by id and
// idempotent.
//
// A reservation that is not settled in time belongs to a process that died first, or to a call whose bill is unknown.
// Its worst case counts as spent until it is settled after all, so neither a crash nor a clock frees room under a
// cap.
//
// # Leases
//
// Calls that charge the same account at once would contend for one row. Therefore a part of what is left is reserved
// in one go and handed out in memory. A lease is a reservation like any other, so the sum of all leases and all spend
// never exceeds the cap, whichever processes die. The lease of a killed process expires after a minute, and what was
// not handed out of it is free again.
//
// # Time
//
// Account periods follow the engine's clock and never go back.
package store
