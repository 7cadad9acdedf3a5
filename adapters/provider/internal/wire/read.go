package wire

import (
	"bytes"
	"io"
	"sync"
)

// buffers are what answers are read into before their length is known.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largestKept is the largest buffer that waits for the next answer.
const largestKept = 1 << 20

// ReadAll is io.ReadAll with memory for no more than the answer.
func ReadAll(r io.Reader) ([]byte, error) {
	buf, _ := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= largestKept {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	_, err := buf.ReadFrom(r)
	return bytes.Clone(buf.Bytes()), err
}
