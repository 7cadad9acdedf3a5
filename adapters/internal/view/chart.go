package view

import "math"

// chart is a set of curves and points. A page has it as a table, which scripts draw.
type chart struct {
	ID, Title, X, Y string
	// Note says below the title what is shown.
	Note     string
	LogX     bool
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
	// Hidden series are drawn when they are asked for.
	Hidden bool
}

type point struct {
	X, Y float64
	// Low and High are a band round Y, both 0 for none.
	Low, High float64
	Label     string
	// XText and YText are what the table says.
	XText, YText string
}

// bars are stacked bars in units of a drawing 720 wide and 150 high.
type bars struct {
	Columns []column
	Keys    []string
	Max     string
}

type column struct {
	Name  string
	X, W  float64
	Parts []part
	Text  string
	Tick  bool
}

type part struct {
	Key  string
	Y, H float64
	Text string
}

const barsWide, barsHigh = 720.0, 150.0

// stack lays out the bars: values by column and key.
func stack(columns, keys []string, value func(column, key string) float64, text func(float64) string) *bars {
	if len(columns) == 0 {
		return nil
	}
	top := 0.0
	for _, c := range columns {
		sum := 0.0
		for _, k := range keys {
			sum += value(c, k)
		}
		top = max(top, sum)
	}
	if top == 0 {
		return nil
	}
	b := &bars{Keys: keys, Max: text(top)}
	w := barsWide / float64(len(columns))
	every := max(1, int(math.Ceil(90/w)))
	for i, c := range columns {
		col := column{Name: c, X: float64(i) * w, W: max(w*0.82, 1), Tick: i%every == 0}
		if w > 60 {
			col.W = w - 12
		}
		col.W = min(col.W, 80)
		y, sum := barsHigh, 0.0
		for _, k := range keys {
			v := value(c, k)
			if v == 0 {
				continue
			}
			h := v / top * barsHigh
			y -= h
			sum += v
			col.Parts = append(col.Parts, part{Key: k, Y: y, H: h, Text: c + ", " + plain(k) + ": " + text(v)})
		}
		col.Text = text(sum)
		b.Columns = append(b.Columns, col)
	}
	return b
}
