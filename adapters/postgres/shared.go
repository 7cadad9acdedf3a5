package postgres

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// OpenShared opens the database at a postgres:// URL for a router (router.Options.OpenStore), which can share it with
// other processes. Write errors go to logger, which can be nil.
func OpenShared(ctx context.Context, url string, logger hclog.Logger) (*store.Shared, error) {
	s, err := Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return store.Share(s, url, logger), nil
}
