// Package pool has the connections that all calls of providers share.
package pool

import (
	"net/http"
	"sync"
	"time"
)

// Silence is how long a server may say nothing before its call is given up: models that
// reason are silent for minutes.
const Silence = 10 * time.Minute

// Shared returns the pool of the process. It keeps 256 connections to a host, where that
// of http.DefaultTransport keeps two, and a busy gateway opens one for nearly half
// of its calls. Its idle connections go by themselves.
var Shared = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // what net/http has there
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1024, 256
	t.ResponseHeaderTimeout = Silence
	return t
})
