package sqlite

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// OpenShared opens the file at path for a router (router.Options.OpenStore), which can share it with other processes
// on this machine. Write errors go to logger, which can be nil.
func OpenShared(ctx context.Context, path string, logger hclog.Logger) (*store.Shared, error) {
	s, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	return store.Share(s, path, logger), nil
}
