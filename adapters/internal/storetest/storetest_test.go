package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepfall/stepfall/adapters/internal/pgtest"
	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/adapters/sqlite"
)

// engine is an engine under test.
type engine struct {
	// Open opens the same database each time, as another process would.
	Open func(t testing.TB) store.Store
	// Clock sets the clock by which the engine counts the periods of accounts.
	Clock func(t testing.TB, s store.Store, now time.Time)
}

func TestSQLite(t *testing.T) { testEngine(t, openSQLite) }

// A transaction with an unknown outcome is retried, although it may have committed: that changes nothing.
func TestRepeatedTransactionsChangeNothing(t *testing.T) {
	for name, test := range map[string]func(*testing.T, engine){
		"ATraceCountsOnce": countsOnce, "SumsAddUp": sums, "KeysAreFoundByDigest": keys, "NotesEnd": notes, "OneProcessClaimsAName": claims, "NumbersAddUp": numbers,
	} {
		t.Run(name, func(t *testing.T) {
			e := openSQLite(t)
			once := e.Open
			e.Open = func(t testing.TB) store.Store {
				s := once(t).(*sqlite.Store)
				write := s.Write
				s.Write = func(ctx context.Context, do func(sqlstore.Tx) error) error {
					if err := write(ctx, do); err != nil {
						return err
					}
					return write(ctx, do)
				}
				return s
			}
			test(t, e)
		})
	}
}

func TestPostgres(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	testEngine(t, func(t testing.TB) engine { return openPostgres(c.Database(t), "") })
}

// TestPostgresBehindAPooler runs the same tests behind PgBouncer, which gives each transaction another connection.
func TestPostgresBehindAPooler(t *testing.T) {
	if os.Getenv("STEPFALL_ATTACKS") != "all" {
		t.Skip("STEPFALL_ATTACKS is not all: TestPostgres asks the same without a pooler")
	}
	c := pgtest.Start(t, "fsync=off")
	pooled := c.Pooler(t)
	testEngine(t, func(t testing.TB) engine { return openPostgres(c.Database(t), pooled+"&pool_max_conns=8") })
}

func openSQLite(t testing.TB) engine {
	path := filepath.Join(t.TempDir(), "with a space?.db")
	return engine{
		Open: func(t testing.TB) store.Store {
			s, err := sqlite.Open(context.Background(), path)
			must(t, err)
			t.Cleanup(func() { s.Close() })
			return s
		},
		Clock: func(_ testing.TB, s store.Store, now time.Time) {
			s.(*sqlite.Store).Now = func() time.Time { return now }
		},
	}
}

// openPostgres opens the database of a URL with additional query parameters.
func openPostgres(url, more string) engine {
	return engine{
		Open: func(t testing.TB) store.Store {
			s, err := postgres.Open(context.Background(), url+more)
			must(t, err)
			t.Cleanup(func() { s.Close() })
			return s
		},
		Clock: func(t testing.TB, _ store.Store, now time.Time) {
			c, err := pgx.Connect(context.Background(), url)
			must(t, err)
			defer c.Close(context.Background())
			_, err = c.Exec(context.Background(), fmt.Sprintf(
				"CREATE OR REPLACE FUNCTION stepfall.now_ns() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT %d::bigint $$", now.UnixNano()))
			must(t, err)
		},
	}
}

// testEngine runs the tests. Each gets an engine with an empty database from fresh.
func testEngine(t *testing.T, fresh func(t testing.TB) engine) {
	for name, test := range map[string]func(*testing.T, engine){
		"CapsHoldAgainstConcurrentCallers":        capsHold,
		"AReservationIsAllOrNothing":              allOrNothing,
		"SettlingGivesTheRestBackOnce":            settling,
		"TheSameReservationTwiceIsOne":            twice,
		"WhatIsNotSettledCountsAsSpent":           expiry,
		"WhatReturnsIsGivenBack":                  returning,
		"PeriodsNeverGoBack":                      periods,
		"LongerPeriodsKeepWhatWasSpent":           longerPeriods,
		"LeasesNeverPassACap":                     leases,
		"LeasesOfManyProcessesHoldACap":           processesShare,
		"LeasesThatAreNotUsedAreGivenBack":        idle,
		"LeasesUseEveryCent":                      everyCent,
		"WhatLeasesSpendIsSeen":                   seen,
		"OverrunsLeaveLessAtOnce":                 overruns,
		"RefusalsSayWhatIsMissing":                shortages,
		"LeasesEndWithTheirCap":                   leasesEndWithTheirCap,
		"LeasesThatWereForgottenAreBooked":        forgottenLeases,
		"ALoweredCapWaitsForLeases":               testLoweredCap,
		"LeasesOfAKilledProcessComeBack":          testKill,
		"BillsOfAKilledProcessAreNotReleased":     releasedLeases,
		"SlotsOfAKilledProcessComeBack":           killedSlots,
		"ABillThatIsNotKnownIsUnsettled":          uncertain,
		"ABillThatIsNotKnownIsHeldOnce":           uncertainOnce,
		"WhatIsReleasedComesBack":                 releasing,
		"CallsThatWereNotSentDoNotCount":          unsentCalls,
		"WhatIsOldIsPruned":                       pruning,
		"TracesComeBack":                          traces,
		"ATraceCountsOnce":                        countsOnce,
		"SumsAddUp":                               sums,
		"PagesAndFollowersMissNothing":            pages,
		"KeysAreFoundByDigest":                    keys,
		"NotesEnd":                                notes,
		"OneProcessClaimsAName":                   claims,
		"NumbersAddUp":                            numbers,
		"LedgersChargeTenantRunAndKey":            ledger,
		"ConcurrentWritersOfManyAccountsAllEnd":   many,
		"ATextThatIsNoTextIsRecordedAllTheSame":   badText,
		"WhatCannotBeWrittenLeavesTheRest":        unwritable,
		"AbsurdNumbersLeaveSumsThatCanBeRead":     absurd,
		"LongNamesAreFoundAgain":                  longNames,
		"ACallThatIsCancelledLeavesNothingBehind": testCancel,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func balance(t testing.TB, s store.Store, account string) (spent, reserved int64) {
	t.Helper()
	list, err := s.Balances(context.Background(), account, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if b.Account == account {
			return b.Spent, b.Reserved
		}
	}
	return 0, 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var start = time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC)
