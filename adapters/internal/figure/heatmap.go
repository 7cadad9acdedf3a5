package figure

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HeatMap is a grid of values in the unit of Scale. Values[y][x] belongs to XTicks[x] and YTicks[y]. Each cell shows its
// number, so that the map can be read without colours.
type HeatMap struct {
	Name             string
	Title, X, Y      string
	Scale            string
	XTicks, YTicks   []string
	Values           [][]float64
	FractionalDigits int
}

// Figure draws the map.
func (h *HeatMap) Figure() *Figure {
	low, high := math.Inf(1), math.Inf(-1)
	for _, line := range h.Values {
		for _, v := range line {
			if !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low > high {
		low, high = 0, 0
	}
	return &Figure{Name: h.Name, Width: max(15, 4+1.8*vg.Length(len(h.XTicks))) * vg.Centimeter, Height: 11.5 * vg.Centimeter, draw: func(c draw.Canvas) {
		h.cells(low, high).Draw(draw.Crop(c, 4, -8, 4, -4))
	}}
}

// shade maps a value to white at low and dark blue at high; negative values are tinted orange, so that a loss does
// not look like a small gain.
func shade(v, low, high float64) color.RGBA {
	if math.IsNaN(v) {
		return color.RGBA{255, 255, 255, 255}
	}
	if v < 0 {
		t := 0.25 + 0.75*v/min(low, -1e-12)
		return blend(t, color.RGBA{230, 120, 20, 255})
	}
	return blend(v/max(high, 1e-12), color.RGBA{8, 48, 120, 255})
}

func blend(t float64, c color.RGBA) color.RGBA {
	t = min(max(t, 0), 1)
	mix := func(v uint8) uint8 { return uint8(255 - t*(255-float64(v))) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

func (h *HeatMap) cells(low, high float64) *plot.Plot {
	p := newPlot(Axes{Title: h.Title + ", " + h.Scale, X: h.X, Y: h.Y})
	p.X.Tick.Marker, p.Y.Tick.Marker = nameTicks(h.XTicks), nameTicks(h.YTicks)
	p.X.Min, p.X.Max = -0.5, float64(len(h.XTicks))-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(len(h.YTicks))-0.5
	p.Add(painter(func(c draw.Canvas, p *plot.Plot) { h.paint(c, p, low, high) }))
	return p
}

// nameTicks labels 0, 1, 2 and so on with names.
type nameTicks []string

func (n nameTicks) Ticks(_, _ float64) []plot.Tick {
	ticks := make([]plot.Tick, len(n))
	for i, name := range n {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
	}
	return ticks
}

// painter is a function that draws a part of a plot.
type painter func(c draw.Canvas, p *plot.Plot)

func (paint painter) Plot(c draw.Canvas, p *plot.Plot) { paint(c, p) }

// paint draws the cells with their numbers.
func (h *HeatMap) paint(c draw.Canvas, p *plot.Plot, low, high float64) {
	x, y := p.Transforms(&c)
	style := textSize(8)
	for row, line := range h.Values {
		for col, v := range line {
			fill := shade(v, low, high)
			fx, fy := float64(col), float64(row)
			c.FillPolygon(fill, []vg.Point{
				{X: x(fx - 0.5), Y: y(fy - 0.5)}, {X: x(fx + 0.5), Y: y(fy - 0.5)},
				{X: x(fx + 0.5), Y: y(fy + 0.5)}, {X: x(fx - 0.5), Y: y(fy + 0.5)},
			})
			if math.IsNaN(v) {
				continue
			}
			style.Color = color.Black
			if int(fill.R)+int(fill.G)+int(fill.B) < 380 {
				style.Color = color.White
			}
			c.FillText(style, vg.Point{X: x(fx), Y: y(fy)}, fmt.Sprintf("%.*f", h.FractionalDigits, v))
		}
	}
}
