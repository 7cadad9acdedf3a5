package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"slices"

	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/adapters/view"
)

// openStore opens a store of traces, and says whether the argument names one.
func openStore(ctx context.Context, arg string) (view.Reader, func() error, bool, error) {
	file, err := os.Open(arg)
	if err != nil {
		return nil, nil, false, nil //nolint:nilerr // it is no file, and nobody else's either
	}
	head := make([]byte, len(sqliteMagic))
	_, err = io.ReadFull(file, head)
	file.Close()
	if err != nil || !bytes.Equal(head, sqliteMagic) {
		return nil, nil, false, nil //nolint:nilerr // too short to be one
	}
	s, err := sqlite.Open(ctx, arg)
	if err != nil {
		return nil, nil, true, err
	}
	defer s.Close()
	list, err := s.List(ctx, sqlite.Filter{Limit: 1 << 30})
	if err != nil {
		return nil, nil, true, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, t := range slices.Backward(list) {
		if err := enc.Encode(t); err != nil {
			return nil, nil, true, err
		}
	}
	lines, err := view.ReadLines(&b)
	return lines, func() error { return nil }, true, err
}
