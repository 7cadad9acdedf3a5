package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// job is one atomic change.
type job struct {
	ctx  context.Context
	do   func(sqlstore.Tx) error
	err  error
	done chan struct{}
}

// maxJobs bounds the changes of one transaction.
const maxJobs = 128

var errClosed = errors.New("the store is closed")

// write makes a change without interleaving other writers. Changes that wait at the same time share a transaction,
// since syncing takes most of the time.
func (s *Store) write(ctx context.Context, do func(sqlstore.Tx) error) error {
	j := &job{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	select {
	case s.jobs <- j:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	// The change may be in progress: wait for its result.
	select {
	case <-j.done:
		return fault(j.err)
	case <-s.ended:
	}
	select {
	case <-j.done:
		return fault(j.err)
	default:
		return errClosed // too late to be made
	}
}

// run makes the changes until Close, including those that are waiting then.
func (s *Store) run() {
	defer close(s.ended)
	for {
		var batch []*job
		select {
		case j := <-s.jobs:
			batch = append(batch, j)
		case <-s.closed:
		}
	more:
		for len(batch) < maxJobs {
			select {
			case j := <-s.jobs:
				batch = append(batch, j)
			default:
				break more
			}
		}
		if len(batch) == 0 {
			return
		}
		err := s.commit(batch)
		for _, j := range batch {
			if err != nil {
				j.err = errors.Join(err, j.err)
			}
			close(j.done)
		}
	}
}

// dropCacheEvery is how often the page cache is dropped, so that damage to the file is noticed.
const dropCacheEvery = 2 * time.Second

// commit makes changes in one transaction; one that fails is rolled back alone.
func (s *Store) commit(batch []*job) error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(s.cacheDropped) >= dropCacheEvery {
		if err := s.w.exec("PRAGMA shrink_memory"); err != nil {
			return err
		}
		s.cacheDropped = now
	}
	if err := s.w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	changed, err := s.changeAll(batch)
	if err == nil {
		err = s.w.exec("COMMIT")
	}
	if err != nil {
		return errors.Join(err, s.w.exec("ROLLBACK"))
	}
	s.changes = changed
	return nil
}

// changeAll makes the changes, and stores and returns the new number of changes.
func (s *Store) changeAll(batch []*job) (changed int64, err error) {
	if err := s.checkWritten(); err != nil {
		return 0, err
	}
	changed = s.changes
	for _, j := range batch {
		if j.err = j.ctx.Err(); j.err != nil {
			continue
		}
		if err := s.change(j); err != nil {
			return 0, err
		}
		if j.err == nil {
			changed = s.changes + 1
		}
	}
	if changed == s.changes {
		return changed, nil
	}
	return changed, s.w.exec("INSERT OR REPLACE INTO meta (name, value) VALUES ('changes', ?)", changed)
}

// checkWritten returns an error if the file has lost changes that this process has written or read, for example
// because its -wal was truncated. It compares a count of all processes' changes.
func (s *Store) checkWritten() error {
	var changes int64
	if err := s.w.queryRow("SELECT coalesce(max(value), 0) FROM meta WHERE name = 'changes'").Scan(&changes); err != nil {
		return err
	}
	if changes < s.changes {
		return fmt.Errorf("%w: of %d changes to %s it knows %d", store.ErrReplaced, s.changes, s.path, changes)
	}
	s.changes = changes
	return nil
}

// change makes one change under a savepoint, and sets the job's error. A returned error ends the transaction.
func (s *Store) change(j *job) error {
	if err := s.w.exec("SAVEPOINT job"); err != nil {
		return err
	}
	if j.err = j.do(s.w); j.err != nil {
		if err := s.w.exec("ROLLBACK TO job"); err != nil {
			return err
		}
	}
	return s.w.exec("RELEASE job")
}
