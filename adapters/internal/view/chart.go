package view

// chart is a set of curves and points. A page holds it as a table, from which scripts draw it.
type chart struct {
	ID, Title, X, Y string
	// Note is the explanation below the title.
	Note     string
	PercentY bool
	// Time reports that X is in seconds since 1970.
	Time   bool
	Series []series
}

type series struct {
	Name string
	// Kind is "line", "step" or "points".
	Kind   string
	Points []point
}

type point struct {
	X, Y float64
	// Low and High bound a band around Y; both 0 mean none.
	Low, High float64
	Label     string
	// XText and YText are the cells of the table.
	XText, YText string
}
