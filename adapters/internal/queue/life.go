package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// errLost is the cause of the end of the jobs of a worker that others may hold for lost.
var errLost = errors.New("the queue could not be reached, and others may have taken the job")

// enrol makes the worker known.
func (s *workerSession) enrol(ctx context.Context) error {
	for {
		_, err := s.q.pool.Exec(ctx, "INSERT INTO stepfall_queue.workers (id) VALUES ($1)", s.name)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.o.Logger.Warn("the queue cannot be reached", "error", err)
		if !pause(ctx, s.q.t.beat) {
			return ctx.Err()
		}
	}
}

// leave takes the worker's name off, so that what it may have left is taken up at once.
func (s *workerSession) leave(ctx context.Context) {
	_, _ = s.q.pool.Exec(ctx, "DELETE FROM stepfall_queue.workers WHERE id = $1", s.name) // else it is found lost
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// live gives signs of life until ctx ends, or until others may hold the worker for
// lost, which is an error.
func (s *workerSession) live(ctx context.Context) error {
	alive, since, swept := time.Now(), time.Now(), time.Time{}
	for pause(ctx, s.q.t.beat) {
		began := time.Now()
		known, err := s.beat(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !known:
			return errLost
		case err == nil:
			alive = began
		default:
			s.o.Logger.Debug("giving a sign of life", "error", err)
			since = now
			if now.Sub(alive) > s.q.t.fence {
				return errLost
			}
			continue
		}
		if err := s.q.due(ctx); err != nil {
			s.o.Logger.Debug("looking for jobs that are due", "error", err)
		}
		// Who was cut off cannot tell who else was.
		if now.Sub(since) > s.q.t.lost {
			if err := s.q.reap(ctx); err != nil {
				s.o.Logger.Debug("looking for lost workers", "error", err)
			}
		}
		if now.Sub(swept) > time.Hour {
			swept = now
			if err := s.q.sweep(ctx); err != nil {
				s.o.Logger.Debug("sweeping", "error", err)
			}
		}
	}
	return nil
}

// beat gives a sign of life, ends the jobs that nobody waits for, and gives back those
// that are booked on this worker and that it does not have.
func (s *workerSession) beat(ctx context.Context) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.q.t.fence/2)
	defer cancel()
	sent := time.Now()
	var clock time.Time
	err = s.q.pool.QueryRow(ctx, "UPDATE stepfall_queue.workers SET seen_at = now() WHERE id = $1 RETURNING now()", s.name).Scan(&clock)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.ahead = clock.Sub(sent)
	var mine []int64
	var runs []string
	for id, h := range s.jobs {
		if !h.ended.IsZero() && time.Since(h.ended) > s.q.t.lost {
			delete(s.jobs, id)
			continue
		}
		mine = append(mine, id)
		if h.ended.IsZero() {
			runs = append(runs, h.run)
		}
	}
	s.mu.Unlock()
	if len(runs) > 0 {
		gone, err := s.q.orphaned(ctx, runs)
		if err != nil {
			return true, err
		}
		s.mu.Lock()
		for _, h := range s.jobs {
			if gone[h.run] && h.ended.IsZero() {
				h.cancel(ErrNotWaitedFor)
			}
		}
		s.mu.Unlock()
	}
	return true, s.q.giveBack(ctx, "attempted_by[array_upper(attempted_by, 1)] = $1 AND id <> ALL (coalesce($2::bigint[], '{}')) AND attempted_at < now() - $3::interval",
		s.name, mine, s.q.t.lost)
}

// reap forgets the workers that are lost, and gives their jobs to others.
func (q *Queue) reap(ctx context.Context) error {
	if _, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.workers WHERE seen_at < now() - $1::interval", q.t.lost); err != nil {
		return err
	}
	return q.giveBack(ctx, "NOT EXISTS (SELECT 1 FROM stepfall_queue.workers w WHERE w.id = attempted_by[array_upper(attempted_by, 1)]) AND attempted_at < now() - $1::interval",
		q.t.beat)
}

// due has the jobs tried again whose pause is over. River does so by the clock of one of
// the workers, which may be wrong.
func (q *Queue) due(ctx context.Context) error {
	_, err := q.pool.Exec(ctx, "UPDATE stepfall_queue.river_job SET state = 'available' WHERE state IN ('retryable', 'scheduled') AND scheduled_at <= now()")
	return err
}

// giveBack has running jobs tried again, as River does with those that it holds for
// stuck.
func (q *Queue) giveBack(ctx context.Context, where string, args ...any) error {
	_, err := q.pool.Exec(ctx, fmt.Sprintf(`UPDATE stepfall_queue.river_job SET
		state = (CASE WHEN attempt >= max_attempts THEN 'discarded' ELSE 'available' END)::stepfall_queue.river_job_state,
		finalized_at = CASE WHEN attempt >= max_attempts THEN now() END,
		scheduled_at = now(),
		errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', attempt, 'error', 'worker ' || attempted_by[array_upper(attempted_by, 1)] || ' was lost', 'trace', ''))
		WHERE state = 'running' AND %s`, where), args...)
	return err
}
