// Package sqlite implements [store.Store] in a SQLite file: caps, traces, keys, circuits, conversations. It needs no
// server, and serves any number of processes on one machine.
//
//	s, err := sqlite.Open(ctx, "stepfall.db")
//	defer s.Close()
//
// # Crashes
//
// Reservations and traces are on disk when the call returns. A reservation whose process died before settling it
// counts as spent in full: a cap holds across crashes, at the price of sometimes overcharging a call.
//
// # Lost files
//
// An existing empty file is refused ([store.ErrReplaced]), as is a missing file whose -wal exists: it may have held
// accounts, and the spend is unknown. When the file, or the -wal or -shm beside it, is removed or replaced while a
// process has it open, that process grants nothing more.
//
// # Concurrency
//
// A store is safe for concurrent use. The file is opened in WAL mode; writers in one process share transactions,
// those of several processes wait for each other.
package sqlite
