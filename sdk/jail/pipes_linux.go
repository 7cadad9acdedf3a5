package jail

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"
)

// pipes connect a process to the child that it starts, which reads an order and writes a report. The run
// ends when the write end of the first process's order pipe closes.
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

// childEnds returns the child's ends, in the order of its descriptors.
func (p *pipes) childEnds() []*os.File { return []*os.File{p.ordersTheirs, p.reportsTheirs} }

func (p *pipes) close() {
	for _, file := range []*os.File{p.orders, p.reports, p.ordersTheirs, p.reportsTheirs} {
		if file != nil {
			file.Close()
		}
	}
}

// exchange sends the order and waits for the report, or until the child exits.
func (p *pipes) exchange(order any) (*report, error) {
	p.ordersTheirs.Close()
	p.reportsTheirs.Close()
	// Send concurrently: an order can exceed a pipe's buffer, and the child can fail before reading it.
	sent := make(chan error, 1)
	go func() { sent <- json.NewEncoder(p.orders).Encode(order) }()
	var r report
	err := json.NewDecoder(io.LimitReader(p.reports, 64<<20)).Decode(&r)
	if err != nil {
		_ = p.orders.SetWriteDeadline(time.Now()) // pipes always support deadlines
	}
	return &r, errors.Join(err, <-sent)
}
