package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/view"
)

// openStore opens a store of traces, and says whether the argument names one.
func openStore(ctx context.Context, arg string) (view.Reader, func() error, bool, error) {
	if !strings.Contains(arg, "://") {
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
	}
	s, err := full.OpenStore(ctx, arg, nil)
	if err != nil {
		return nil, nil, true, err
	}
	return s, s.Close, true, nil
}
