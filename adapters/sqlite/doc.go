// Package sqlite keeps what a [store.Store] keeps in a SQLite file: caps, traces,
// keys, circuits, conversations. It needs nothing else, and serves any number of
// processes of one machine.
//
//	s, err := sqlite.Open(ctx, "stepfall.db")
//	defer s.Close()
//
// # Crashes
//
// What was reserved or recorded is on disk when the call returns. A reservation that
// its process did not live to settle counts as spent in full: a cap holds across
// crashes, at the price of now and then counting a call too dear.
//
// # A file that was lost
//
// A file that is there and empty is refused ([store.ErrReplaced]), as is one whose log
// is there without it: accounts may have been in it, and what was spent is not known.
// When the file, or the -wal or -shm beside it, is removed or replaced while a process
// has it open, that process grants nothing more.
//
// # Concurrency
//
// A store is safe for concurrent use. The file is opened in WAL mode; writers of one
// process share transactions, those of several wait for one another.
package sqlite
