package view

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

var nan = math.NaN()

func (v *viewer) funcs() template.FuncMap {
	return template.FuncMap{
		"clean": (*redact.Redactor)(nil).Text, // traces of other tools were not redacted when they were written
		"plain": plainText, "dollars": dollars, "amount": func(v float64) string { return strings.TrimSuffix(dollars(v), " USD") }, "signedDollars": signedDollars, "whole": formatWhole, "percent": percent,
		"quality": quality, "lambda": lambda, "duration": duration, "clock": clock, "short": short, "count": func(n any, noun string) string {
			c, _ := strconv.ParseInt(fmt.Sprint(n), 10, 64)
			return count(c, noun)
		},
		"because": say.Because, "page": v.pageLink, "stepLink": v.stepLink, "runLink": v.runLink, "stepsWith": v.stepsLink,
		"hue": hue, "join": func(list []string, by string) string { return plainText(strings.Join(list, by)) },
		"num":           func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) },
		"raw":           func(x float64) string { return strconv.FormatFloat(x, 'g', 10, 64) },
		"signedPercent": func(v float64) string { return fmt.Sprintf("%+.0f %%", 100*v) }, "signedPoints": func(v float64) string { return fmt.Sprintf("%+.1f", 100*v) },
		"subInt": func(a, b int) int { return a - b },
		"mul":    func(a, b float64) float64 { return a * b }, "sub": func(a, b float64) float64 { return a - b },
		"iso":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"mark": func(outcome string) string { return marks[outcome] }, "isStep": sdk.IsStep, "marked": func(passed, rejected, inconclusive int64) string {
			return formatWhole(passed) + " of " + formatWhole(passed+rejected)
		},
		"per": func(d time.Duration, n int64) string {
			if n == 0 {
				return ""
			}
			return duration(d / time.Duration(n))
		},
		"share": func(a, b int64) string {
			if b == 0 {
				return "–"
			}
			return percent(float64(a) / float64(b))
		},
		"usdPer": func(usd float64, n int64) string {
			if n == 0 {
				return "–"
			}
			return dollars(usd / float64(n))
		},
		"deref": func(p *float64) float64 {
			if p == nil {
				return nan
			}
			return *p
		},
		"scaleJSON": func(s scale) string {
			data, _ := json.Marshal(s.Points)
			return string(data)
		},
		"exported": func() bool { return v.export != nil }, "place": v.place,
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}
}

// hue returns the CSS class of a model's colour, by its index in order.
func hue(order []string, model string) string {
	i := slices.Index(order, model)
	if i < 0 {
		return "m-none"
	}
	return "m-" + strconv.Itoa(i%8)
}

// marks are symbols of outcomes, for readers who cannot tell the colours apart.
var marks = map[string]string{"passed": "✓", "failed": "✗", "inconclusive": "?", "error": "!"}

// Links lead to addresses on a server, and to files in an export.

func (v *viewer) pageLink(name string) string {
	switch {
	case v.export != nil && name == "overview":
		return "index.html"
	case v.export != nil:
		return name + ".html"
	case name == "overview":
		return "./"
	}
	return name
}

func (v *viewer) stepLink(id string) string {
	if v.export == nil {
		return "step?" + url.Values{"id": {id}}.Encode()
	}
	if i, has := v.export.steps[id]; has {
		return packedLink(stepFile, i)
	}
	return "steps.html"
}

func (v *viewer) runLink(name, tenant string) string {
	id := runID{name, tenant}
	if v.export == nil {
		return "run?" + id.values().Encode()
	}
	if i, has := v.export.runs[id]; has {
		return packedLink(runFile, i)
	}
	return "runs.html"
}

// runID identifies a run: two tenants can use the same name.
type runID struct{ name, tenant string }

// values returns the query of the run's page.
func (id runID) values() url.Values {
	q := url.Values{"name": {id.name}}
	if id.tenant != "" {
		q.Set("tenant", id.tenant)
	}
	return q
}

func (v *viewer) stepsLink(filters ...string) string {
	values := url.Values{}
	for pair := range slices.Chunk(filters, 2) {
		values.Set(pair[0], pair[1])
	}
	asked := values.Encode()
	if v.export != nil {
		return "steps.html#" + asked
	}
	return "steps?" + asked
}
