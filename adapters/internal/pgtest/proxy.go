package pgtest

import (
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy is a TCP proxy in front of a server that can stop forwarding without closing connections.
type Proxy struct {
	net.Listener
	network, address string
	open             sync.RWMutex
}

// StartProxy starts a proxy in front of a database's server, and returns the database's address through it. The proxy
// ends with the test.
func StartProxy(t testing.TB, database string) (*Proxy, string) {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	p := &Proxy{network: "unix", address: query.Get("host") + "/.s.PGSQL.5432"}
	if p.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	go p.serve()
	query.Del("host")
	query.Set("sslmode", "disable")
	address.Host, address.RawQuery = p.Addr().String(), query.Encode()
	return p, address.String()
}

// Hang stops forwarding until Resume.
func (p *Proxy) Hang() { p.open.Lock() }

// Resume forwards again, starting with what arrived meanwhile.
func (p *Proxy) Resume() { p.open.Unlock() }

func (p *Proxy) serve() {
	for {
		from, err := p.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial(p.network, p.address)
		if err != nil {
			from.Close()
			continue
		}
		go p.forward(to, from)
		go p.forward(from, to)
	}
}

func (p *Proxy) forward(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.open.RLock()
		_, fault := to.Write(buffer[:n])
		p.open.RUnlock()
		if errors.Join(err, fault) != nil {
			return
		}
	}
}
