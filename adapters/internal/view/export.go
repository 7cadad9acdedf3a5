package view

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/adapters/store"
)

// exporter says which pages an export has.
type exporter struct {
	steps map[string]bool
	runs  map[runID]bool
}

// ExportOptions bound an export.
type ExportOptions struct {
	// Steps is how many of the newest steps get a page; 0 means 1000.
	Steps int
	// Filter selects them.
	Filter store.Filter
}

// Export writes the pages as files to a folder, which they can be opened from without
// a server. It returns the path of the first page.
func Export(ctx context.Context, dir string, o Options, e ExportOptions) (first string, err error) {
	v := newViewer(o)
	v.export = &exporter{steps: map[string]bool{}, runs: map[runID]bool{}}
	if err := os.MkdirAll(filepath.Join(dir, "assets"), 0o755); err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "assets/*")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	first = filepath.Join(dir, "index.html")
	return first, v.saveAll(ctx, dir, e)
}

func (v *viewer) saveAll(ctx context.Context, dir string, e ExportOptions) error {
	if err := v.ledger.read(ctx); err != nil {
		return err
	}
	a := asked{Filter: e.Filter}
	steps, err := v.makeSteps(ctx, a, cmp.Or(e.Steps, 1000))
	if err != nil {
		return err
	}
	for i := range steps.Steps {
		v.export.steps[steps.Steps[i].ID] = true
		if s := &steps.Steps[i]; s.Run != "" && len(v.export.runs) < 200 {
			v.export.runs[runID{s.Run, s.Tenant}] = true
		}
	}
	steps.Filtered = false
	if err := v.save(dir, "steps.html", "steps", steps); err != nil {
		return err
	}
	for name, make := range map[string]func() (any, error){
		"overview": func() (any, error) { return v.makeOverview(ctx, a) },
		"runs":     func() (any, error) { return v.makeRuns(ctx, "") },
		"trust":    func() (any, error) { return v.makeTrust(ctx, a) },
		"compare":  func() (any, error) { return v.makeCompare(ctx, "", "") },
	} {
		page, err := make()
		if err != nil {
			return err
		}
		if err := v.save(dir, v.pageLink(name), name, page); err != nil {
			return err
		}
	}
	for run := range v.export.runs {
		page, err := v.makeRun(ctx, run.name, run.tenant)
		if err != nil {
			return err
		}
		if err := v.save(dir, run.file(), "run", page); err != nil {
			return err
		}
	}
	for id := range v.export.steps {
		page, err := v.makeStep(ctx, id)
		if err != nil {
			return err
		}
		if err := v.save(dir, fileOf("step", id), "step", page); err != nil {
			return err
		}
	}
	return nil
}

func (v *viewer) save(dir, name, page string, content any) error {
	var b bytes.Buffer
	if err := v.pages[page].ExecuteTemplate(&b, "layout", content); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
}

// fileOf names the file of a step or run: names of others make no paths.
func fileOf(kind, name string) string {
	if len(name) <= 64 && strings.Trim(name, "0123456789abcdef") == "" && name != "" {
		return kind + "-" + name + ".html"
	}
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(sum[:8]) + ".html"
}
