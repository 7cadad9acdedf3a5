package router

import (
	"fmt"
	"io"
	"sync"
)

// openFiles are the files that setups write, by path. Setups with the same path share the file, so that the
// last steps of an old policy and the first steps of its successor write to one file in turn.
type openFiles struct {
	mu     sync.Mutex
	byPath map[string]*openFile
}

type openFile struct {
	file  io.Closer
	users int
}

// acquireFile returns the file at path, opening it on first acquireFile. Closing the setup releases it; the last user closes
// it.
func acquireFile[F io.Closer](s *setup, r *Router, path string, open func() (F, error)) (F, error) {
	all := &r.open
	all.mu.Lock()
	defer all.mu.Unlock()
	shared := all.byPath[path]
	if shared == nil {
		file, err := open()
		if err != nil {
			return file, err
		}
		shared = &openFile{file: file}
		if all.byPath == nil {
			all.byPath = map[string]*openFile{}
		}
		all.byPath[path] = shared
	}
	file, ok := shared.file.(F)
	if !ok {
		return file, fmt.Errorf("%s cannot be both a trace file and a database", path)
	}
	shared.users++
	s.closers = append(s.closers, func() error { return all.release(path) })
	return file, nil
}

func (f *openFiles) release(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared := f.byPath[path]
	shared.users--
	if shared.users > 0 {
		return nil
	}
	delete(f.byPath, path)
	return shared.file.Close()
}
