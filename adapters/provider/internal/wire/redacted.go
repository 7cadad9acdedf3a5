package wire

import (
	"bytes"
	"io"

	"github.com/stepfall/stepfall/sdk/redact"
)

// redactedBody is an answer without the keys that were sent to its server, a line at a time:
// an event of a stream, or all of it.
type redactedBody struct {
	io.ReadCloser
	secrets *redact.Redactor
	pending []byte // of a line that has not ended
	clean   []byte
	err     error
}

// Read implements io.Reader.
func (b *redactedBody) Read(p []byte) (int, error) {
	for len(b.clean) == 0 {
		if b.err != nil || len(p) == 0 {
			return 0, b.err
		}
		n, err := b.ReadCloser.Read(p)
		end := len(b.pending) + bytes.LastIndexByte(p[:n], '\n') + 1
		if end == len(b.pending) && err == nil {
			end = 0
		}
		b.pending, b.err = append(b.pending, p[:n]...), err
		if err != nil {
			end = len(b.pending)
		}
		if end > 0 {
			b.clean = []byte(b.secrets.Known(string(b.pending[:end])))
			b.pending = bytes.Clone(b.pending[end:])
		}
	}
	n := copy(p, b.clean)
	b.clean = b.clean[n:]
	return n, nil
}
