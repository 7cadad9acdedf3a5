package wire

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stepfall/stepfall/sdk"
	pb "github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1"
)

// A step asks about its query before each decision, and its verifiers ask too. So a
// query is sent once and then named by its key, which is a hash of all that it says.

const (
	// smallQuery is the length of a query in bytes up to which a key spares nothing.
	smallQuery = 4 << 10
	// mostSent is how many queries a host believes a plugin to have, fewer than a
	// plugin keeps.
	mostSent = 128
	mostKept = 256
	// mostBytes bounds what a plugin keeps, about.
	mostBytes = 64 << 20
)

// sentQueries are what a plugin has been sent. It is safe for concurrent use.
type sentQueries struct {
	mu      sync.Mutex
	allowed bool
	recent  recent[struct{}]
}

// allow says whether the plugin keeps queries.
func (s *sentQueries) allow(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = ok
}

// send calls do with the key of the query alone where the plugin has it, and with the
// query itself where it does not.
func (s *sentQueries) send(q *sdk.Query, do func(ref string, query *pb.Query) error) error {
	s.mu.Lock()
	allowed := s.allowed
	s.mu.Unlock()
	if !allowed || q == nil {
		return do("", queryToWire(q))
	}
	ref, size := keyOf(q)
	if size <= smallQuery {
		return do("", queryToWire(q))
	}
	s.mu.Lock()
	_, known := s.recent.get(ref)
	s.mu.Unlock()
	if known {
		if err := do(ref, nil); status.Code(err) != codes.NotFound {
			return err
		}
	}
	err := do(ref, queryToWire(q))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.recent.put(ref, struct{}{}, 0, mostSent)
	}
	return err
}

// keptQueries are the queries that a plugin keeps. It is safe for concurrent use.
type keptQueries struct {
	mu     sync.Mutex
	recent recent[*sdk.Query]
}

// get returns the query of a request: the one that came with it, which is kept when it
// has a key, or the one with the key.
func (k *keptQueries) get(ref string, query *pb.Query) (*sdk.Query, error) {
	if query == nil && ref != "" {
		k.mu.Lock()
		defer k.mu.Unlock()
		q, ok := k.recent.get(ref)
		if !ok {
			return nil, status.Error(codes.NotFound, "the query is kept no longer")
		}
		return q, nil
	}
	q := queryFromWire(query)
	if ref != "" {
		_, size := keyOf(q)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.recent.put(ref, q, size, mostKept)
	}
	return q, nil
}

// recent is the values that were used last.
type recent[V any] struct {
	byKey map[string]*list.Element
	order list.List // of *entry[V], the last used first
	bytes int
}

type entry[V any] struct {
	key   string
	value V
	bytes int
}

func (r *recent[V]) get(key string) (value V, ok bool) {
	e := r.byKey[key]
	if e == nil {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(*entry[V]).value, true
}

// put adds a value, and forgets those used longest ago over so many.
func (r *recent[V]) put(key string, value V, bytes, most int) {
	if _, ok := r.get(key); ok {
		return
	}
	if r.byKey == nil {
		r.byKey = map[string]*list.Element{}
	}
	r.byKey[key] = r.order.PushFront(&entry[V]{key, value, bytes})
	r.bytes += bytes
	for r.order.Len() > most || r.bytes > mostBytes && r.order.Len() > 1 {
		last := r.order.Remove(r.order.Back()).(*entry[V])
		r.bytes -= last.bytes
		delete(r.byKey, last.key)
	}
}

// seeds make keys of 128 bits that nobody can foresee.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// keyOf returns a hash of all that the query says, and about how many bytes that is.
func keyOf(q *sdk.Query) (key string, size int) {
	var w hashed
	for i := range w.hashes {
		w.hashes[i].SetSeed(seeds[i])
	}
	w.text(q.ID, q.Group, q.Run, q.Session, q.Tenant, q.WorkDir)
	w.number(uint64(q.MaxOutputTokens), uint64(q.InputTokens), uint64(len(q.Messages)))
	for i := range q.Messages {
		w.text(string(q.Messages[i].Role))
		w.number(uint64(len(q.Messages[i].Parts)))
		for j := range q.Messages[i].Parts {
			p := &q.Messages[i].Parts[j]
			w.text(string(p.Kind), p.Text, p.URL, p.MIMEType)
			w.bytes(p.Data)
			if c := p.ToolCall; c != nil {
				w.text(c.ID, c.Name, c.Arguments)
			}
			if c := p.ToolResult; c != nil {
				w.text(c.CallID, c.Name, c.Content, strconv.FormatBool(c.IsError))
			}
		}
	}
	w.number(uint64(len(q.Tools)))
	for i := range q.Tools {
		w.text(q.Tools[i].Name, q.Tools[i].Description)
		w.bytes(q.Tools[i].Parameters)
	}
	w.text(strconv.FormatBool(q.Format.JSON))
	w.bytes(q.Format.Schema)
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		w.text(name, q.Labels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(q.Features)) {
		w.text(name)
		w.number(math.Float64bits(q.Features[name]))
	}
	w.number(uint64(len(q.Labels)), uint64(len(q.Checks.FailToPass)))
	w.text(q.Checks.FailToPass...)
	w.text(q.Checks.PassToPass...)
	return strconv.FormatUint(w.hashes[0].Sum64(), 36) + "." + strconv.FormatUint(w.hashes[1].Sum64(), 36), w.size
}

// hashed hashes texts with their lengths, so that no two lists of them are one.
type hashed struct {
	hashes [2]maphash.Hash
	size   int
}

func (w *hashed) text(list ...string) {
	for _, s := range list {
		w.number(uint64(len(s)))
		for i := range w.hashes {
			_, _ = w.hashes[i].WriteString(s) // never fails
		}
		w.size += len(s)
	}
}

func (w *hashed) bytes(b []byte) {
	w.number(uint64(len(b)))
	for i := range w.hashes {
		_, _ = w.hashes[i].Write(b) // never fails
	}
	w.size += len(b)
}

func (w *hashed) number(list ...uint64) {
	var b [8]byte
	for _, n := range list {
		binary.LittleEndian.PutUint64(b[:], n)
		for i := range w.hashes {
			_, _ = w.hashes[i].Write(b[:]) // never fails
		}
	}
}
