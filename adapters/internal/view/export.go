package view

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type exporter struct {
	steps map[string]int
	runs  map[runID]int
	// texts numbers the long texts of the file that is being written.
	texts map[string]int
}

// pagesPerFile is how many steps or runs share a file, so that compression covers what they repeat.
const pagesPerFile = 50

// Export writes the pages to a folder, from which a browser opens them without a server, with the given number of
// newest steps. It returns the path of the first page.
func Export(ctx context.Context, dir string, o Options, steps int) (first string, err error) {
	v := newViewer(o)
	v.export = &exporter{steps: map[string]int{}, runs: map[runID]int{}}
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
	return first, v.exportPages(ctx, dir, steps)
}

func (v *viewer) exportPages(ctx context.Context, dir string, newest int) error {
	if err := v.ledger.read(ctx); err != nil {
		return err
	}
	steps, err := v.makeSteps(ctx, pageQuery{}, newest)
	if err != nil {
		return err
	}
	var runs []runID
	for i := range steps.Steps {
		s := &steps.Steps[i]
		v.export.steps[s.ID] = i
		id := runID{s.Run, s.Tenant}
		if _, known := v.export.runs[id]; !known && s.Run != "" && len(runs) < 200 {
			v.export.runs[id] = len(runs)
			runs = append(runs, id)
		}
	}
	steps.Filtered = false
	return errors.Join(
		savePage(ctx, v, dir, "overview", v.overview), savePage(ctx, v, dir, "runs", v.runs),
		savePage(ctx, v, dir, "trust", v.trust), savePage(ctx, v, dir, "compare", v.compare),
		v.saveArchive(dir, "steps", 1, func(int) string { return "steps.html" }, func(int) (any, error) { return steps, nil }),
		v.saveArchive(dir, "run", len(runs), runFile, func(i int) (any, error) { return v.run(ctx, runs[i].values()) }),
		v.saveArchive(dir, "step", len(steps.Steps), stepFile, func(i int) (any, error) { return v.makeStep(ctx, steps.Steps[i].ID) }),
	)
}

// savePage writes a page as it is without a query.
func savePage[P any](ctx context.Context, v *viewer, dir, name string, make func(context.Context, url.Values) (*P, error)) error {
	content, err := make(ctx, nil)
	if err != nil {
		return err
	}
	return v.save(filepath.Join(dir, v.pageLink(name)), name, content)
}

func stepFile(i int) string { return fmt.Sprintf("step-%d.html", i/pagesPerFile) }

func runFile(i int) string { return fmt.Sprintf("run-%d.html", i/pagesPerFile) }

func packedLink(file func(int) string, i int) string {
	return file(i) + "?" + url.Values{"page": {strconv.Itoa(i)}}.Encode()
}

type packedPage struct {
	frame
	// Packed is a document with one article per page: gzip in base64, with "-" in place of "+".
	Packed string
}

// saveArchive writes n pages of a kind into shared files, one file at a time.
func (v *viewer) saveArchive(dir, kind string, n int, file func(int) string, page func(int) (any, error)) error {
	for i := 0; i < n; {
		var b bytes.Buffer
		zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return err
		}
		v.export.texts = map[string]int{}
		for name := file(i); i < n && file(i) == name; i++ {
			content, err := page(i)
			if err != nil {
				return err
			}
			titled := content.(interface{ title() string })
			fmt.Fprintf(zip, "<article data-page=\"%d\" data-title=\"%s\">", i, html.EscapeString(plainText(titled.title())))
			if err := v.pages[kind].ExecuteTemplate(zip, "content", content); err != nil {
				return fmt.Errorf("making page %d of %s: %w", i, name, err)
			}
			fmt.Fprint(zip, "</article>")
		}
		if err := zip.Close(); err != nil {
			return err
		}
		at := "steps"
		if kind == "run" {
			at = "runs"
		}
		packed := strings.ReplaceAll(base64.StdEncoding.EncodeToString(b.Bytes()), "+", "-")
		if err := v.save(filepath.Join(dir, file(i-1)), "packed", packedPage{v.frame(at, strings.ToUpper(at[:1])+at[1:], false), packed}); err != nil {
			return err
		}
	}
	return nil
}

func (v *viewer) save(path, page string, content any) error {
	var b bytes.Buffer
	if err := v.pages[page].ExecuteTemplate(&b, "layout", content); err != nil {
		return fmt.Errorf("making %s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// textPlace locates a text within a file of an export.
type textPlace struct {
	ID       int
	Repeated bool
}

// place returns the place of a text in the file that is being exported, or nil on a server and for a text that is too
// short to be worth a reference.
func (v *viewer) place(s string) *textPlace {
	const long = 200
	if v.export == nil || v.export.texts == nil || len(s) < long {
		return nil
	}
	id, known := v.export.texts[s]
	if !known {
		id = len(v.export.texts)
		v.export.texts[s] = id
	}
	return &textPlace{id, known}
}
