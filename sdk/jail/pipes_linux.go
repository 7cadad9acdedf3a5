package jail

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// pipes join a process and the one that it starts, which gets an order and returns a report. The run ends
// when the write end of its first process's orders closes.
type pipes struct {
	orders, reports             *os.File
	ordersTheirs, reportsTheirs *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	var err error
	if p.ordersTheirs, p.orders, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.reports, p.reportsTheirs, err = os.Pipe(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// childEnds returns the ends of the started process, in the order of its descriptors.
func (p *pipes) childEnds() []*os.File { return []*os.File{p.ordersTheirs, p.reportsTheirs} }

func (p *pipes) close() {
	for _, file := range []*os.File{p.orders, p.reports, p.ordersTheirs, p.reportsTheirs} {
		if file != nil {
			file.Close()
		}
	}
}

// exchange sends the order and waits for the report, or for the end of the process.
func (p *pipes) exchange(order any) (*report, error) {
	p.ordersTheirs.Close()
	p.reportsTheirs.Close()
	// Both ends may be at work: an order may be longer than a pipe.
	sent := make(chan error, 1)
	go func() { sent <- json.NewEncoder(p.orders).Encode(order) }()
	var r report
	err := json.NewDecoder(io.LimitReader(p.reports, 64<<20)).Decode(&r)
	if err != nil {
		_ = p.orders.SetWriteDeadline(time.Now()) // a pipe always takes one
	}
	return &r, errors.Join(err, <-sent)
}
