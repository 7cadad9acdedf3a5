package view

import (
	"context"
	"slices"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// No index covers text search: a page searches backwards in time spans of about spanSteps steps until the time
// searching is up, and then offers to continue.
const (
	spanSteps = 5000
	searching = 100 * time.Millisecond
)

// search lists the steps with a text, newest first. If it stopped early, back is the time down to which it searched.
func (v *viewer) search(ctx context.Context, f store.Filter) (list []store.Step, back time.Time, err error) {
	days, err := v.o.Traces.Sums(ctx, []store.Dimension{store.ByDay}, store.Filter{Tenant: f.Tenant, Key: f.Key, Policy: f.Policy, Since: f.Since, Until: f.Until})
	if err != nil {
		return nil, back, err
	}
	began := time.Now()
	for _, day := range slices.Backward(days) {
		begin, err := time.Parse(time.DateOnly, day.Day)
		if err != nil {
			return nil, back, err
		}
		spans := day.Steps/spanSteps + 1
		length := 24 * time.Hour / time.Duration(spans)
		end := begin.Add(24 * time.Hour)
		for at := spans - 1; at >= 0; at-- {
			part := f
			part.Since, part.Until, part.Limit = begin.Add(time.Duration(at)*length), end, f.Limit-len(list)
			end = part.Since
			if f.Since.After(part.Since) {
				part.Since = f.Since
			}
			if !f.Until.IsZero() && f.Until.Before(part.Until) {
				part.Until = f.Until
			}
			if f.Before != nil && f.Before.Start.Before(part.Since) || !part.Since.Before(part.Until) {
				continue
			}
			if !back.IsZero() && time.Since(began) > v.searching {
				return list, back, nil
			}
			some, err := v.o.Traces.Steps(ctx, part)
			if list = append(list, some...); err != nil || len(list) == f.Limit {
				return list, time.Time{}, err
			}
			back = part.Since
		}
	}
	return list, time.Time{}, nil
}
