package estimate

// What the tests of whole estimators show to a cursor by hand.
type (
	Query      = queryFacts
	Run        = runFacts
	CostCursor = costCursor
)
