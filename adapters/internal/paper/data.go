package paper

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Data is a table with a description of its source.
type Data struct {
	Table *outcome.Table
	// Name is the file's name and Hash its SHA-256.
	Name, Hash string
	// Shipped reports that it is the copy in the repository.
	Shipped bool
}

// String describes the data with its size and hash, as shown on pages.
func (d *Data) String() string {
	return fmt.Sprintf("%s (%d queries, %d models, sha256 %.12s)", d.Name, len(d.Table.Queries), len(d.Table.Models), d.Hash)
}

// of returns the data with another table that is derived from its own.
func (d *Data) of(t *outcome.Table, suffix string) *Data {
	return &Data{Table: t, Name: d.Name + suffix, Hash: d.Hash}
}

// questionsOf returns the questions restricted to each of the sets of models that they have.
func (e *Env) questionsOf(sets ...string) (data []*Data) {
	for _, set := range sets {
		if e.Questions == nil {
			break
		}
		if t, err := e.Questions.Table.Subset(set); err == nil {
			data = append(data, e.Questions.of(t, ", "+set+" models"))
		}
	}
	return data
}

// eachData adds a section with a table for each of the data.
func (e *Env) eachData(p *Page, list []*Data, measure func(d *Data) (*eval.Table, error)) error {
	for _, d := range list {
		e.startingf("%s: %s", p.Name, d.Name)
		t, err := measure(d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		p.section(d.Name)
		p.printf("Data: %s.\n\n", d)
		p.table(t)
	}
	return nil
}

// Folders are searched for tables: Data holds downloaded ones, Shipped the compressed ones of the repository.
type Folders struct{ Data, Shipped string }

// Read reads the user's own tables or, without any, those of the folders.
func (e *Env) Read(ctx context.Context, own []string) error {
	for _, path := range own {
		d, err := open(ctx, path, outcome.Options{})
		if err != nil {
			return err
		}
		e.Own = append(e.Own, d)
	}
	for _, name := range []string{"swebench_verified.csv", "openhands_swe.csv", "openhands_swt.csv", "zeroeval.csv"} {
		questions := name == "zeroeval.csv"
		d, err := e.open(ctx, name, outcome.Options{Verified: !questions})
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case questions:
			e.Questions = d
		default:
			if e.Agents = append(e.Agents, d); name == "swebench_verified.csv" {
				e.Verified = d
			}
		}
	}
	return nil
}

// open reads a table from the data folder, or else the repository's copy.
func (e *Env) open(ctx context.Context, name string, o outcome.Options) (*Data, error) {
	path := filepath.Join(e.Folders.Data, name)
	if prompts := filepath.Join(e.Folders.Data, "zeroeval_queries.jsonl"); name == "zeroeval.csv" && exists(prompts) {
		o.Prompts = prompts
	}
	if shipped := filepath.Join(e.Folders.Shipped, name+".gz"); !exists(path) && exists(shipped) {
		d, err := open(ctx, shipped, o)
		if err == nil {
			d.Shipped = true
		}
		return d, err
	}
	return open(ctx, path, o)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func open(ctx context.Context, path string, o outcome.Options) (*Data, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Data{Name: filepath.Base(path), Hash: fmt.Sprintf("%x", sha256.Sum256(raw))}
	if d.Name == "bfcl_calls.csv.gz" {
		if raw, err = withAnswers(raw); err != nil {
			return nil, err
		}
	}
	d.Table, err = outcome.Read(bytes.NewReader(raw), path, o)
	return d, err
}

// withAnswers converts recorded calls to a table whose answers are the calls.
func withAnswers(raw []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(unzipped)
	return bytes.Replace(text, []byte(",call,"), []byte(",answer,"), 1), err
}
