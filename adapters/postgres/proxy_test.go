package postgres

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/store"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// gate is a TCP proxy that can stop forwarding without closing anything.
type gate struct {
	net.Listener
	to   [2]string // network and address
	open sync.RWMutex
}

func (g *gate) serve() {
	for {
		from, err := g.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial(g.to[0], g.to[1])
		if err != nil {
			from.Close()
			continue
		}
		go g.forward(to, from)
		go g.forward(from, to)
	}
}

func (g *gate) forward(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.open.RLock()
		_, fault := to.Write(buffer[:n])
		g.open.RUnlock()
		if errors.Join(err, fault) != nil {
			return
		}
	}
}

// A database that is not heard of any more, with no connection closed, holds nobody up for more
// than five seconds, and serves again when it is back, with the books right.
func TestADatabaseThatGoesSilent(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	address, err := url.Parse(pgtest.Start(t, "fsync=off").Database(t))
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	g := &gate{to: [2]string{"tcp", address.Host}}
	if dir := query.Get("host"); dir != "" {
		port := query.Get("port")
		if port == "" {
			port = "5432"
		}
		g.to = [2]string{"unix", dir + "/.s.PGSQL." + port}
	}
	if g.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go g.serve()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	address.Host, address.RawQuery = g.Addr().String(), query.Encode()
	shared := store.Share(opened(t, address.String()), address.String(), nil)
	ledger, q := shared.Ledger(step.Caps{RunUSD: 1}), &sdk.Query{Run: "r"}
	before, err := ledger.Reserve(t.Context(), q, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	g.open.Lock()
	for range 2 {
		began := time.Now()
		_, err := ledger.Reserve(t.Context(), q, 0.25)
		if took := time.Since(began); !errors.Is(err, sdk.ErrStoreUnavailable) || took > 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	}
	if err := before.Settle(t.Context(), 0.125); !errors.Is(err, sdk.ErrStoreUnavailable) {
		t.Errorf("settled: %v", err)
	}
	g.open.Unlock()
	spent := func() (sum store.Balance) {
		all, err := shared.Balances(t.Context(), "run ")
		if err != nil && !errors.Is(err, io.EOF) {
			t.Log(err)
		}
		for _, b := range all {
			sum = b
		}
		return sum
	}
	want := int64(0.125 * store.NanoUSD)
	got := spent()
	for until := time.Now().Add(20 * time.Second); (got.Spent != want || got.Reserved != 0) && time.Now().Before(until); got = spent() {
		time.Sleep(100 * time.Millisecond)
	}
	if got.Spent != want || got.Reserved != 0 {
		t.Errorf("%+v, want %d spent and nothing reserved", got, want)
	}
	if _, err := ledger.Reserve(t.Context(), q, 0.875); err != nil {
		t.Error(err)
	}
	if err := errors.Join(shared.Close(), g.Close()); err != nil {
		t.Error(err)
	}
}
