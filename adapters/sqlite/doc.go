// Package sqlite keeps traces and ledgers in a SQLite file, so that neither a
// restart nor a crash forgets what was spent and why.
//
//	store, err := sqlite.Open(ctx, "stepfall.db")
//	defer store.Close()
//
// A [Store] is a trace sink (Record, and List and Get to read), and its Ledger
// holds hard caps for any number of processes that open the same file.
//
// # Crashes
//
// A reservation that its process did not live to settle may have been spent: the
// provider was asked, and nobody knows what it charged. It therefore counts as
// spent in full, from the moment the file is opened again after its lease ended. A
// cap holds across crashes, at the price of now and then counting a call too dear.
//
// # Concurrency
//
// A store is safe for concurrent use. The file is opened in WAL mode; writers wait
// for one another.
package sqlite
