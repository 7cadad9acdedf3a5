package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/say"
)

// dollars formats an amount: with cents from 1 USD up, with three significant digits below.
func dollars(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "unknown"
	case a >= 1000:
		return groupDigits(v) + " USD"
	case a >= 1:
		return fmt.Sprintf("%.2f USD", v)
	case a == 0:
		return "0 USD"
	case a < 1e-7:
		return fmt.Sprintf("%.2g USD", v)
	}
	digits := 2 - int(math.Floor(math.Log10(a)))
	return fmt.Sprintf("%.*f USD", digits, v)
}

func signedDollars(v float64) string {
	if v > 0 {
		return "+" + dollars(v)
	}
	return dollars(v)
}

func groupDigits(v float64) string {
	text := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	var b strings.Builder
	if v < 0 {
		b.WriteByte('-')
	}
	for i, r := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(r)
	}
	return b.String()
}

func formatWhole(n any) string {
	switch n := n.(type) {
	case int:
		return groupDigits(float64(n))
	case int64:
		return groupDigits(float64(n))
	case float64:
		return groupDigits(math.Round(n))
	}
	return fmt.Sprint(n)
}

func percent(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "unknown"
	case v != 0 && math.Abs(v) < 0.0995:
		return fmt.Sprintf("%.1f %%", 100*v)
	case 0.995 <= v && v < 1: // never round up to 100 %
		return fmt.Sprintf("%.1f %%", math.Floor(1000*v)/10)
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

func quality(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0) || a > 1e250:
		return "unbounded"
	case a != 0 && a < 0.001 || a >= 1000:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func lambda(v float64) string { return fmt.Sprintf("%.3g", v) }

func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func short(id string) string { return firstBytes(id, 12) }

func plainText(text string) string { return say.Plain(text) }
