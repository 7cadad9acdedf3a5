package swe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/queue"
)

// While one repository is fetched from a slow server, the worker's other tasks go on.
func TestASlowFetchHoldsUpNoOtherTask(t *testing.T) {
	asked := make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	h := &QueueWorker{Cache: &queue.Cache{Dir: t.TempDir()}, Trees: t.TempDir()}
	fetched, counted := make(chan error, 1), make(chan struct{})
	go func() {
		var a taskArgs
		a.Source.URL, a.Task.BaseCommit = server.URL+"/slow.git", "0123456789012345678901234567890123456789"
		_, err := h.repository(ctx, &a)
		fetched <- err
	}()
	select {
	case <-asked:
	case err := <-fetched:
		t.Fatal(err)
	}
	go func() {
		h.costsOf("run")
		close(counted)
	}()
	select {
	case <-counted:
	case <-time.After(20 * time.Second):
		t.Error("it waits for the repository of another task")
	}
	cancel()
	if err := <-fetched; err == nil {
		t.Error("no error of a fetch that was cancelled")
	}
}
