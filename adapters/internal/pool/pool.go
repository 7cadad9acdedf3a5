// Package pool has the connections that all calls of providers share.
package pool

import (
	"net/http"
	"sync"
	"time"
)

// silence is how long a server may say nothing before its call is given up: models that
// reason are silent for minutes.
const silence = 10 * time.Minute

// Shared returns the pool of the process. It keeps 256 connections to a host, where that
// of http.DefaultTransport keeps two and opens one for nearly every call of a busy
// gateway. Its idle connections go by themselves.
var Shared = sync.OnceValue(func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // what net/http has there
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1024, 256
	t.ResponseHeaderTimeout = silence
	return t
})
