package process

import (
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// attachment is a connection to a plugin that somebody else started, a debugger for
// instance. Stop closes the connection and leaves the plugin alone.
type attachment struct {
	conn *grpc.ClientConn
	wire *wire.Client
	done chan struct{}
	once sync.Once
}

// Attach connects to a plugin that was started with its debug command.
func Attach(to wire.Reattach) (*attachment, error) {
	target := "passthrough:///" + to.Address
	if to.Network == "unix" {
		target = "unix://" + to.Address
	}
	conn, err := grpc.NewClient(target, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, fmt.Errorf("attaching to %s: %w", to.Address, err)
	}
	return &attachment{conn: conn, wire: wire.NewClient(conn), done: make(chan struct{})}, nil
}

// Client returns the client of the connection.
func (a *attachment) Client() *wire.Client { return a.wire }

// PID returns 0: the process is not ours.
func (a *attachment) PID() int { return 0 }

// Done is closed by Stop.
func (a *attachment) Done() <-chan struct{} { return a.done }

// Exit says that nothing is known.
func (a *attachment) Exit() string { return "detached" }

// Kill does what Stop does.
func (a *attachment) Kill() { a.Stop() }

// Stop closes the connection.
func (a *attachment) Stop() {
	a.once.Do(func() {
		a.conn.Close()
		close(a.done)
	})
}
