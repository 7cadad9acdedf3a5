package policies

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// priceLifetime is the age at which the catalogue's prices get a warning: 18 months.
const priceLifetime = 548 * 24 * time.Hour

func (p *Policy) facts(m *Model) *Catalog {
	for _, name := range [...]string{m.Served, snapshotDate.ReplaceAllString(m.Served, "")} {
		i := slices.IndexFunc(p.Catalog, func(c Catalog) bool {
			_, served, _ := strings.Cut(c.Name, "/")
			return c.Name == m.Provider+"/"+name || m.Provider == "go" && served == name // whatever the provider
		})
		if i >= 0 {
			return &p.Catalog[i]
		}
	}
	return nil
}

// snapshotDate matches the date that vendors append to the name of a model's snapshot. A snapshot costs the same
// as the model, unless the catalogue lists it by its full name.
var snapshotDate = regexp.MustCompile(`-20\d\d-?[01]\d-?[0-3]\d$`)

func (l *loader) hasPrice(m *Model) bool {
	return l.header([]string{"model", m.Name, "price"}).first > 0
}

// checkCatalogDates checks the dates of catalog blocks, and warns about prices that are old.
func (l *loader) checkCatalogDates(p *Policy) {
	isOld := map[string]bool{}
	for _, c := range p.Catalog {
		day, err := time.Parse(time.DateOnly, c.AsOf)
		if err != nil && c.AsOf != "" {
			l.complain(l.originAt("catalog", c.Name, "as_of"), fmt.Sprintf("invalid date %q", c.AsOf), "", `Write year, month and day: as_of = "2026-01-31".`)
		}
		isOld[c.Name] = err == nil && !l.o.Today.IsZero() && l.o.Today.Sub(day) > priceLifetime
	}
	var old []string
	var first *Model
	var facts *Catalog
	for i := range p.Models {
		m := &p.Models[i]
		c := p.facts(m)
		if c == nil || l.hasPrice(m) || !isOld[c.Name] {
			continue
		}
		if first == nil {
			first, facts = m, c
		}
		if line := fmt.Sprintf("%s: of %s, from %s", c.Name, c.AsOf, c.Source); !slices.Contains(old, line) {
			old = append(old, line)
		}
	}
	if first == nil {
		return
	}
	verb := "is"
	if len(old) > 1 {
		verb = "are"
	}
	l.warn(l.blockOrigin([]string{"model", first.Name}), fmt.Sprintf("%s %s more than 18 months old", plural(len(old), "price"), verb),
		strings.Join(old, "\n"),
		fmt.Sprintf("Check there; if a price is still valid, set catalog %q { as_of = %q }. A price block within it, or in the model, changes the price.",
			facts.Name, l.o.Today.Format(time.DateOnly)))
}
