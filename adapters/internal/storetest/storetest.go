package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// Engine is an engine under test.
type Engine struct {
	// Open opens the same database each time, as another process would.
	Open func(t testing.TB) store.Store
	// Clock sets the clock by which the engine counts the periods of accounts.
	Clock func(t testing.TB, s store.Store, now time.Time)
}

// Run runs the tests. Each gets an engine with an empty database from fresh.
func Run(t *testing.T, fresh func(t testing.TB) Engine) {
	for name, test := range map[string]func(*testing.T, Engine){
		"CapsHoldAgainstConcurrentCallers":        capsHold,
		"AReservationIsAllOrNothing":              allOrNothing,
		"SettlingGivesTheRestBackOnce":            settling,
		"TheSameReservationTwiceIsOne":            twice,
		"WhatIsNotSettledCountsAsSpent":           expiry,
		"WhatReturnsIsGivenBack":                  returning,
		"PeriodsNeverGoBack":                      periods,
		"LeasesNeverPassACap":                     leases,
		"LeasesOfManyProcessesHoldACap":           processesShare,
		"LeasesThatAreNotUsedAreGivenBack":        idle,
		"LeasesUseEveryCent":                      everyCent,
		"WhatLeasesSpendIsSeen":                   seen,
		"LeasesEndWithTheirCap":                   leasesEndWithTheirCap,
		"LeasesOfAKilledProcessComeBack":          testKill,
		"SlotsOfAKilledProcessComeBack":           killedSlots,
		"ABillThatIsNotKnownIsUnsettled":          uncertain,
		"WhatIsReleasedComesBack":                 releasing,
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
