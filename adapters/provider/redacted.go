package provider

import (
	"bytes"
	"io"
	"slices"

	"github.com/stepfall/stepfall/sdk/redact"
)

// redactedBody removes the keys that were sent to a server from its response, line by line.
type redactedBody struct {
	io.ReadCloser
	secrets *redact.Redactor
	pending []byte // read but not yet returned, without keys up to clean
	clean   int
	err     error
}

// Read implements io.Reader.
func (b *redactedBody) Read(p []byte) (int, error) {
	for b.clean == 0 {
		if b.err != nil || len(p) == 0 {
			return 0, b.err
		}
		n, err := b.ReadCloser.Read(p)
		if end := bytes.LastIndexAny(p[:n], "\r\n") + 1; end > 0 {
			b.clean = len(b.pending) + end
		}
		if b.pending, b.err = append(b.pending, p[:n]...), err; err != nil {
			b.clean = len(b.pending)
		}
		text := string(b.pending[:b.clean])
		if known := b.secrets.Known(text); known != text {
			b.pending = append([]byte(known), b.pending[b.clean:]...)
			b.clean = len(known)
		}
	}
	n := copy(p, b.pending[:b.clean])
	b.pending, b.clean = slices.Delete(b.pending, 0, n), b.clean-n
	return n, nil
}
