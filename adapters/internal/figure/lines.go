package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Figure is a drawing with its size in points.
type Figure struct {
	Name          string
	Width, Height vg.Length
	draw          func(draw.Canvas)
}

// Series is one line of a figure; Low and High, when set, bound a band around it.
type Series struct {
	Name      string
	X, Y      []float64
	Low, High []float64
}

// Label is a named point of a figure.
type Label struct {
	Name string
	X, Y float64
}

// Axes describes the axes of a line figure.
type Axes struct {
	Title, X, Y string
	LogX, LogY  bool
	// Percent shows all of Y from 0 to 100, and X from 0.
	Percent bool
}

// The palette differs in lightness as well as hue, and each line has its own dashes
// and marks, so that a figure survives a black-and-white printer.
var palette = []color.RGBA{
	{0, 0, 0, 255}, {213, 94, 0, 255}, {0, 114, 178, 255}, {0, 158, 115, 255},
	{204, 121, 167, 255}, {120, 120, 120, 255}, {86, 60, 20, 255}, {86, 180, 233, 255},
}

var dashes = [][]vg.Length{
	nil, {6, 2}, {2, 2}, {8, 2, 2, 2}, {10, 4}, {1, 2}, {4, 4}, {12, 2, 2, 2, 2, 2},
}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
	draw.RingGlyph{}, draw.PlusGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
}

func newPlot(a Axes) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = a.Title, a.X, a.Y
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 6
	p.BackgroundColor = color.White
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.ThumbnailWidth = 28
	p.Legend.TextStyle.Font.Size = 9
	p.Legend.Padding = 1
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size = 10
		axis.Tick.Label.Font.Size = 9
	}
	if a.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	if a.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{225}
	p.Add(grid)
	return p
}

func (a *Axes) hasPlace(x, y float64) bool {
	return !math.IsNaN(x+y) && !math.IsInf(x+y, 0) && (!a.LogX || x > 0) && (!a.LogY || y > 0)
}

// Lines draws series as lines and labels as named points. It omits points without a finite place on the axes.
func Lines(name string, a Axes, series []Series, labels []Label) (*Figure, error) {
	p := newPlot(a)
	for i, s := range series {
		if err := addBand(p, s, palette[i%len(palette)], a.hasPlace); err != nil {
			return nil, fmt.Errorf("drawing the band of %s: %w", s.Name, err)
		}
	}
	for i, s := range series {
		if err := addLine(p, i, s, a.hasPlace); err != nil {
			return nil, fmt.Errorf("drawing %s: %w", s.Name, err)
		}
	}
	if err := addLabels(p, labels, a.hasPlace); err != nil {
		return nil, err
	}
	if a.Percent {
		p.X.Min, p.X.Max = 0, p.X.Max*1.18
		p.Y.Min, p.Y.Max = 0, 100
	}
	// The legend is beside the data, never over them.
	const beside = 4 * vg.Centimeter
	legend := p.Legend
	p.Legend = plot.NewLegend()
	return &Figure{Name: name, Width: 20 * vg.Centimeter, Height: 11.5 * vg.Centimeter, draw: func(c draw.Canvas) {
		p.Draw(draw.Crop(c, 4, -beside, 4, -4))
		legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-beside+6, -2, 0, -30))
	}}, nil
}

func addBand(p *plot.Plot, s Series, c color.RGBA, visible func(x, y float64) bool) error {
	if len(s.Low) != len(s.X) || len(s.High) != len(s.X) {
		return nil
	}
	var lower, upper plotter.XYs
	for i, x := range s.X {
		if visible(x, s.Low[i]) && visible(x, s.High[i]) {
			lower = append(lower, plotter.XY{X: x, Y: s.Low[i]})
			upper = append(upper, plotter.XY{X: x, Y: s.High[i]})
		}
	}
	if len(lower) < 2 {
		return nil
	}
	slices.Reverse(upper)
	band, err := plotter.NewPolygon(append(lower, upper...))
	if err != nil {
		return err
	}
	// Mixed with white rather than transparent: SVG viewers differ on alpha.
	band.Color = blend(0.14, c)
	band.Width = 0
	p.Add(band)
	return nil
}

func addLine(p *plot.Plot, i int, s Series, visible func(x, y float64) bool) error {
	var xys plotter.XYs
	for k, x := range s.X {
		if visible(x, s.Y[k]) {
			xys = append(xys, plotter.XY{X: x, Y: s.Y[k]})
		}
	}
	if len(xys) == 0 {
		return nil
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	c := palette[i%len(palette)]
	line.Color, line.Width, line.Dashes = c, 1.4, dashes[i%len(dashes)]
	points.Color, points.Shape, points.Radius = c, marks[i%len(marks)], 2
	points.XYs = thin(xys, 14)
	if len(xys) == 1 { // a single point has no line
		points.Radius = 4
	}
	p.Add(line, points)
	p.Legend.Add(s.Name, line, points)
	return nil
}

// thin returns about n of the points, including the ends, so that marks do not merge.
func thin(xys plotter.XYs, n int) plotter.XYs {
	if len(xys) <= n {
		return xys
	}
	out := make(plotter.XYs, 0, n)
	for i := range n {
		out = append(out, xys[i*(len(xys)-1)/(n-1)])
	}
	return out
}

func addLabels(p *plot.Plot, labels []Label, visible func(x, y float64) bool) error {
	var named plotter.XYLabels
	for _, l := range labels {
		if visible(l.X, l.Y) {
			named.XYs = append(named.XYs, plotter.XY{X: l.X, Y: l.Y})
			named.Labels = append(named.Labels, l.Name)
		}
	}
	if len(named.XYs) == 0 {
		return nil
	}
	points, err := plotter.NewScatter(named.XYs)
	if err != nil {
		return fmt.Errorf("drawing the models: %w", err)
	}
	points.Shape, points.Radius, points.Color = draw.PyramidGlyph{}, 2.6, color.Gray{90}
	p.Add(points)
	p.Legend.Add("single models", points)
	// Names of many models would hide the lines.
	if len(named.Labels) > 12 {
		return nil
	}
	p.Add(names{named})
	return nil
}

// names labels points within the axes where no other label is; a label without room is omitted.
type names struct{ plotter.XYLabels }

func (n names) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := textSize(7)
	style.Color = color.Gray{90}
	var taken []vg.Rectangle
	for i, name := range n.Labels {
		width, height := style.Width(name), style.Height(name)
		at := vg.Point{X: x(n.XYs[i].X), Y: y(n.XYs[i].Y)}
		for _, place := range []vg.Point{
			// Below first: lines run above the single models.
			{X: 5 + width/2, Y: -height}, {X: -5 - width/2, Y: -height}, {X: 5 + width/2}, {X: -5 - width/2},
			{Y: -4 - height/2}, {X: 5 + width/2, Y: height}, {X: -5 - width/2, Y: height}, {Y: 4 + height/2},
		} {
			middle := at.Add(place)
			half := vg.Point{X: width / 2, Y: height / 2}
			box := vg.Rectangle{Min: middle.Sub(half), Max: middle.Add(half)}
			if c.Contains(box.Min) && c.Contains(box.Max) && !slices.ContainsFunc(taken, func(t vg.Rectangle) bool { return overlap(t, box) }) {
				taken = append(taken, box)
				c.FillText(style, middle, name)
				break
			}
		}
	}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// logTicks labels powers of ten, and 2 and 5 times them on short axes, with plain numbers.
type logTicks struct{}

// Ticks returns the marks between low and high, both of them positive.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	labelled := []int{1}
	if math.Log10(high/low) < 3 {
		labelled = []int{1, 2, 5}
	}
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow(10, e)
			if v < low*0.999 || v > high*1.001 {
				continue
			}
			label := ""
			if slices.Contains(labelled, m) {
				label = strconv.FormatFloat(v, 'f', max(0, -int(e)), 64)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// Save writes the figure to dir as NAME.png and NAME.svg.
func (f *Figure) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, format := range []string{"png", "svg"} {
		canvas, err := draw.NewFormattedCanvas(f.Width, f.Height, format)
		if err != nil {
			return fmt.Errorf("drawing %s: %w", f.Name, err)
		}
		f.draw(draw.New(canvas))
		var out bytes.Buffer
		if _, err := canvas.WriteTo(&out); err != nil {
			return fmt.Errorf("drawing %s: %w", f.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name+"."+format), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// textSize returns the text style of numbers inside figures.
func textSize(size font.Length) draw.TextStyle {
	style := plot.New().X.Tick.Label
	style.Font.Size = size
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	return style
}
