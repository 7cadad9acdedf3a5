// Package store is what several processes share: caps, traces, keys, open circuits,
// conversations, pacing. It says what an engine must do ([Store]), and has what is
// the same for every engine: taking money from accounts, with leases for the hot ones
// ([LeasedAccounts]), and a buffer that traces wait in while the engine is away
// ([Buffer]).
//
// Two packages implement it. Package sqlite needs nothing and serves one machine;
// package postgres serves as many as there are.
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
// Accounts count whole numbers: billionths of a US dollar ([NanoUSD]), or requests,
// tokens, streams. A reservation is one conditional update that refuses what does
// not fit; it is never read and then written. Settling is by id, and settling again
// changes nothing.
//
// A reservation that is not settled in time was made by a process that did not live
// to settle it, or whose bill nobody knows. Its worst case counts as spent until
// somebody settles it after all. So neither a crash nor a clock makes room under a cap.
//
// # Leases
//
// An account that many calls charge at once would have them wait for one row. A part
// of what is left is then reserved at once and handed out in memory. Since that is a
// reservation like any other, the sum of all leases and of all that was spent never
// passes the cap, whichever processes die. A lease whose process was killed ends by
// itself after a minute, and what was not handed out of it is free again.
//
// # Time
//
// Periods of accounts are counted by the clock of the engine and never go back.
package store
