package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// A cap of a cent for each run: what a call may cost at most is reserved before it,
// what it did cost is booked after it. The file keeps both over restarts.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	file, err := sqlite.Open(ctx, filepath.Join(dir, "budget.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()

	leased := store.NewLeasedAccounts(file, store.LeaseOptions{})
	defer leased.Close()
	ledger := leased.Ledger(step.Caps{RunUSD: 0.01})
	query := &sdk.Query{Run: "agent-7"}
	first, err := ledger.Reserve(ctx, query, 0.008)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = ledger.Reserve(ctx, query, 0.008)
	fmt.Println("beside the first, refused:", errors.Is(err, sdk.ErrBudgetExhausted))
	if err := first.Settle(ctx, 0.001); err != nil {
		fmt.Println(err)
		return
	}
	_, err = ledger.Reserve(ctx, query, 0.008)
	fmt.Println("after it, refused:", errors.Is(err, sdk.ErrBudgetExhausted))
	// Output:
	// beside the first, refused: true
	// after it, refused: false
}
