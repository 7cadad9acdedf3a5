package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// Store is a SQLite file. It implements [store.Store].
type Store struct {
	sqlstore.DB
	path string
	// files holds the opened files: the database, and the two that SQLite keeps beside it until its last connection
	// is closed.
	files map[string]os.FileInfo
	// read has several connections. writer has one, w, which only the goroutine of run uses.
	read, writer *sql.DB
	w            *preparedConn
	changes      int64     // count of changes by all processes, as last seen by run
	cacheDropped time.Time // when the writer last dropped its page cache
	jobs         chan *job
	closed       chan struct{} // closed by Close: no further change is accepted
	ended        chan struct{} // closed by run: no further change is made
	closing      sync.Once
	// Now is the clock of periods and reservations. It can be replaced before the store is used.
	Now func() time.Time
}

var _ store.Store = (*Store)(nil)

// Open opens the file, and creates it when it does not exist.
func Open(ctx context.Context, path string) (*Store, error) {
	s := &Store{path: path, jobs: make(chan *job, 256), closed: make(chan struct{}), ended: make(chan struct{}), Now: time.Now}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	go s.run()
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	err := ensureFile(ctx, s.path)
	if err != nil {
		return err
	}
	if s.writer, err = connect(s.path, 1); err != nil {
		return err
	}
	if s.read, err = connect(s.path, 4); err != nil {
		return errors.Join(err, s.writer.Close())
	}
	s.DB = sqlstore.DB{
		Read: s.read, Write: s.write, Accounts: "accounts2", Each: "json_each($1)", Now: "CAST(unixepoch('subsec') * 1000000000 AS INTEGER)",
		Blind: true, Refused: isRefused, Fault: fault,
	}
	err = migrate(ctx, s.writer)
	s.files = map[string]os.FileInfo{s.path: nil, s.path + "-wal": nil, s.path + "-shm": nil}
	for path := range s.files {
		if err == nil {
			s.files[path], err = os.Stat(path)
		}
	}
	if err == nil {
		s.w, err = prepare(ctx, s.writer)
	}
	if err == nil {
		// Steps wait for this connection; see package store for their deadline.
		err = s.w.exec("PRAGMA busy_timeout = 2500")
	}
	if err != nil {
		return errors.Join(err, s.writer.Close(), s.read.Close())
	}
	return nil
}

func connect(path string, connections int) (*sql.DB, error) {
	// secure_delete overwrites deleted content, so that prompts with a retention are really gone. mode=rw creates no
	// file: if the file was moved away, a new connection would create an empty one and remove the -wal with the
	// latest changes.
	pragmas := url.Values{"mode": {"rw"}, "_pragma": {"journal_mode(WAL)", "busy_timeout(10000)", "synchronous(FULL)", "secure_delete(ON)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: pragmas.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	return db, nil
}

// ensureFile creates the database file if there is none, and returns an error for a file that is not a database.
func ensureFile(ctx context.Context, path string) error {
	// The file exists before its -wal does, even while another process creates both: a -wal that is seen first with
	// no file afterwards means that the file was removed.
	_, noLog := os.Stat(path + "-wal")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && noLog == nil:
		return fmt.Errorf("%w: %s-wal is there without it; remove that too to begin anew", store.ErrReplaced, path)
	case errors.Is(err, os.ErrNotExist):
		return create(ctx, path)
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a folder")
	case info.Size() == 0:
		return fmt.Errorf("%w: the file is empty; remove it to begin anew", store.ErrReplaced)
	}
	return nil
}

// create creates a file with tables beside path and links it there, so that no process sees one without tables. It
// keeps a file that another process has put there meanwhile.
func create(ctx context.Context, path string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".stepfall-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, "new.db")
	// Key hashes, prompts and answers are private; the -wal and -shm files get the mode of this file.
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := connect(fresh, 1)
	if err != nil {
		return err
	}
	err = migrate(ctx, db)
	if err == nil {
		// Closing also writes the -wal into the file, but reports no error on a full disk.
		_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	return os.Rename(fresh, path) // without support for hard links
}

// isRefused reports whether a value was too big, or violated a constraint.
func isRefused(err error) bool {
	fault, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	switch fault.Code() & 0xff {
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE:
		return true
	}
	return false
}

// fault wraps an SQLite error in sdk.ErrStoreUnavailable if the file is locked, full, damaged or cannot be read or
// written.
func fault(err error) error {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok || errors.Is(err, sdk.ErrStoreUnavailable) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PROTOCOL,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", sdk.ErrStoreUnavailable, err)
	}
	return err
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	return s.read.PingContext(ctx)
}

func (s *Store) checkFiles() error {
	for path, opened := range s.files {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrReplaced, err)
		}
		if !os.SameFile(info, opened) || path == s.path && info.Size() == 0 {
			return fmt.Errorf("%w: another file is at %s; put the first back, or begin with this one by a new start", store.ErrReplaced, path)
		}
	}
	return nil
}

// KeyByDigest implements [store.Keys]. Once the file is gone, no key is valid any more.
func (s *Store) KeyByDigest(ctx context.Context, digest []byte) (*store.Key, error) {
	if err := s.checkFiles(); err != nil {
		return nil, err
	}
	return s.DB.KeyByDigest(ctx, digest)
}

// Close closes the file. Everything recorded is on disk.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		<-s.ended
		err = errors.Join(s.w.Close(), s.writer.Close(), s.read.Close())
	})
	return err
}

// OpenShared opens the file at path for a router (router.Options.OpenStore), which can share it with other processes
// on this machine. Write errors go to logger, which can be nil.
func OpenShared(ctx context.Context, path string, logger hclog.Logger) (*store.Shared, error) {
	s, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return store.Share(s, path, logger), nil
}
