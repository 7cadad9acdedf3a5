package queue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// partSize is the size of one part of a parcel, in bytes.
const partSize = 4 << 20

// Send stores a parcel in the database for workers to fetch, unless it is there already. name identifies its content,
// for instance by a hash of it or of its sources. pack writes the content.
func (q *Queue) Send(ctx context.Context, name string, pack func(io.Writer) error) error {
	err := pgx.BeginFunc(ctx, q.pool, func(tx pgx.Tx) error {
		w := &partWriter{ctx: ctx, tx: tx, name: name}
		err := tx.QueryRow(ctx, "INSERT INTO stepfall_queue.parcels (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET used_at = now() RETURNING parts", name).Scan(&w.parts)
		if err != nil || w.parts > 0 {
			return err
		}
		buffered := bufio.NewWriterSize(w, partSize)
		if err := errors.Join(pack(buffered), buffered.Flush()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE stepfall_queue.parcels SET parts = $2 WHERE name = $1", name, w.parts)
		return err
	})
	if err != nil {
		return fmt.Errorf("sending %s: %w", name, err)
	}
	return nil
}

// partWriter stores each Write as a part of a parcel.
type partWriter struct {
	ctx   context.Context
	tx    pgx.Tx
	name  string
	parts int
}

func (w *partWriter) Write(data []byte) (int, error) {
	_, err := w.tx.Exec(w.ctx, "INSERT INTO stepfall_queue.parts (name, part, data) VALUES ($1, $2, $3) ON CONFLICT (name, part) DO UPDATE SET data = excluded.data", w.name, w.parts, data)
	w.parts++
	return len(data), err
}

func (q *Queue) receive(ctx context.Context, name string, w io.Writer) error {
	var parts int
	err := q.pool.QueryRow(ctx, "UPDATE stepfall_queue.parcels SET used_at = now() WHERE name = $1 RETURNING parts", name).Scan(&parts)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s is no longer in the queue", name)
	}
	for part := 0; err == nil && part < parts; part++ {
		var data []byte
		if err = q.pool.QueryRow(ctx, "SELECT data FROM stepfall_queue.parts WHERE name = $1 AND part = $2", name, part).Scan(&data); err == nil {
			_, err = w.Write(data)
		}
	}
	if err != nil {
		return fmt.Errorf("fetching %s: %w", name, err)
	}
	return nil
}

// Cache is a folder of fetched parcels. Several workers of one user can share it. It is safe for concurrent use.
type Cache struct {
	// Dir is the folder; it is created when missing.
	Dir string
	q   *Queue
}

// Cache returns the cache in a folder.
func (q *Queue) Cache(dir string) *Cache { return &Cache{Dir: dir, q: q} }

// cacheAge is how long an unused entry is kept.
const cacheAge = 14 * 24 * time.Hour

// Fetch returns the folder of a name, which fill creates when it is missing.
func (c *Cache) Fetch(name string, fill func(dir string) error) (string, error) {
	dir := filepath.Join(c.Dir, name)
	now := time.Now()
	if os.Chtimes(dir, now, now) == nil {
		return dir, nil
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return "", err
	}
	c.sweep(now)
	making, err := os.MkdirTemp(c.Dir, ".new-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(making)
	if err := fill(making); err != nil {
		return "", err
	}
	err = os.Rename(making, dir)
	if _, missing := os.Stat(dir); missing == nil {
		return dir, nil // possibly made by a faster process
	}
	return "", err
}

// sweep removes entries that have not been used for cacheAge, including unfinished ones of killed workers.
func (c *Cache) sweep(now time.Time) {
	entries, _ := os.ReadDir(c.Dir) // an unreadable folder fails where it is used
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > cacheAge {
			_ = os.RemoveAll(filepath.Join(c.Dir, e.Name())) // retried by the next sweep
		}
	}
}

// Tree fetches a folder that was sent with [Queue.SendTree].
func (c *Cache) Tree(ctx context.Context, name string) (string, error) {
	return c.Fetch(name, func(dir string) error {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(c.q.receive(ctx, name, w)) }() // the reader gets the error
		defer r.Close()
		return unpack(r, dir)
	})
}

// File fetches a parcel into a new file at path.
func (c *Cache) File(ctx context.Context, name, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.q.receive(ctx, name, file), file.Close())
}
