package gateway

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

// Reasons for which the gateway itself rejects a request; see Refusal.Reason.
const (
	reasonUnknownKey = "unknown_key"
	reasonForbidden  = "forbidden"
	ReasonRateLimit  = "rate_limit"
	reasonBudget     = "budget"
	ReasonStore      = "store_unavailable"
)

// refusalLog limits the log to one line per second and key. It stores hashes of the keys.
type refusalLog struct {
	seed maphash.Seed

	mu    sync.Mutex
	lines map[uint64]loggedRefusal
}

// loggedRefusal is the time of the last line, and the number of lines omitted since.
type loggedRefusal struct {
	at      time.Time
	omitted int
}

const (
	refusalInterval = time.Second
	// maxRefusedKeys limits the number of keys. Further keys share one line.
	maxRefusedKeys = 1000
)

// admit reports whether to log a line for the key now, and how many were omitted before it.
func (l *refusalLog) admit(key string) (omitted int, ok bool) {
	hash := maphash.String(l.seed, key)
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.lines[hash]; !known && len(l.lines) >= maxRefusedKeys {
		maps.DeleteFunc(l.lines, func(_ uint64, line loggedRefusal) bool {
			isOver := now.Sub(line.at) >= refusalInterval
			if isOver {
				omitted += line.omitted
			}
			return isOver
		})
		if len(l.lines) >= maxRefusedKeys {
			hash = 0
		}
	}
	last := l.lines[hash]
	if now.Sub(last.at) < refusalInterval {
		last.omitted += omitted + 1
		l.lines[hash] = last
		return 0, false
	}
	l.lines[hash] = loggedRefusal{at: now}
	return omitted + last.omitted, true
}
