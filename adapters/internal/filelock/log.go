package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked means that another process uses the log.
var ErrLocked = errors.New("another run is using this file")

// Log is a file of lines to which one process appends. After a kill a line is whole, or cut off at the end of the file,
// where the next OpenLog drops it.
type Log struct {
	file *os.File
	end  int64 // offset behind the last whole line
}

// OpenLog opens or creates a log and its folder, and calls take for each line. An error of take continues the sentence
// "line N".
func OpenLog(path string, take func(line []byte) error) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l := &Log{file: file}
	if err = l.lock(); err == nil {
		err = l.load(take)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return l, nil
}

// lock retries: a killed run that was just starting a program holds the lock until the child has called exec.
func (l *Log) lock() error {
	for range 10 {
		if Take(l.file) == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ErrLocked
}

func (l *Log) load(take func(line []byte) error) error {
	in := bufio.NewReaderSize(l.file, 1<<20)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return l.file.Truncate(l.end)
		}
		if err != nil {
			return err
		}
		if err := take(line); err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		l.end += int64(len(line))
	}
}

// Append writes a line. With isSynced it also syncs, so that this and all earlier lines survive a crash of the machine.
func (l *Log) Append(line []byte, isSynced bool) error {
	n, err := l.file.WriteAt(append(line, '\n'), l.end)
	if err != nil { // as on a full disk: no line may follow half a line
		return errors.Join(err, l.file.Truncate(l.end))
	}
	l.end += int64(n)
	if !isSynced {
		return nil
	}
	return l.file.Sync()
}

// Close closes the file and releases the lock.
func (l *Log) Close() error { return l.file.Close() }
