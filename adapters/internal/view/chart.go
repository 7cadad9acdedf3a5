package view

// chart is a set of curves and points. A page has it as a table, which scripts draw.
type chart struct {
	ID, Title, X, Y string
	// Note says below the title what is shown.
	Note     string
	PercentY bool
	// Time says that X are seconds since 1970.
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
	// Low and High are a band round Y, both 0 for none.
	Low, High float64
	Label     string
	// XText and YText are what the table says.
	XText, YText string
}
