// Package pool holds the connection pool that all calls of providers share.
package pool

import (
	"net/http"
	"sync"
	"time"
)

// Silence is how long a server may send nothing before its call is abandoned: reasoning models are silent for
// minutes.
const Silence = 10 * time.Minute

// Shared returns the transport of the process. It keeps 256 idle connections per host, where http.DefaultTransport
// keeps two, with which a busy gateway opens a connection for nearly half of its calls. Idle connections time out.
var Shared = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // what net/http has there
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1024, 256
	t.ResponseHeaderTimeout = Silence
	return t
})
