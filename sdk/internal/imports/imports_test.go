package imports

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/stepfall/stepfall"

// goPackage is what the test reads of `go list -json`.
type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps,Standard"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

// under reports whether path is one of the folders or is in one of them.
func under(path string, folders ...string) bool {
	for _, folder := range folders {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// layer returns the folder rule that the module's package belongs to.
func layer(path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	switch {
	case under(rel, "examples"):
		return "examples"
	case under(rel, "docs"):
		return "docs"
	case under(rel, "adapters/cli"):
		return "adapters/cli"
	case under(rel, "adapters/programs"):
		return "adapters/programs"
	case under(rel, "adapters"):
		return "adapters"
	case under(rel, "middleware"):
		return "middleware"
	case under(rel, "plugins"):
		return "plugins"
	case under(rel, "policies"):
		return "policies"
	case under(rel, "sdk"):
		return "sdk"
	}
	return "unknown"
}

// mayImport has, for each layer, the layers that it may import directly.
var mayImport = map[string][]string{
	"docs":              {"docs", "policies", "sdk"},
	"sdk":               {"sdk"},
	"middleware":        {"sdk", "middleware"},
	"policies":          {"sdk", "policies"},
	"plugins":           {"sdk", "plugins"},
	"adapters":          {"sdk", "middleware", "policies", "adapters"},
	"adapters/programs": {}, // what tests of all others import
	"adapters/cli":      {"sdk", "middleware", "policies", "adapters", "adapters/cli"},
	"examples":          {"sdk", "middleware", "policies", "adapters", "adapters/cli", "examples"},
}

// only has, for each module outside the standard library that is fenced in, the
// folders whose packages may import it directly.
var only = map[string][]string{
	"github.com/tmc/langchaingo":     {"middleware", "adapters", "examples"},
	"github.com/hashicorp/go-plugin": {"sdk/plugin", "sdk/plugintest", "adapters/internal/host"},
	"google.golang.org/grpc":         {"sdk/plugin", "sdk/plugintest", "adapters/internal/host"},
	"github.com/knadh/koanf":         {"policies"},
	"github.com/hashicorp/hcl":       {"policies"},
	"github.com/zclconf/go-cty":      {"policies"},
}

func TestImportsPointOneWay(t *testing.T) {
	pkgs := list(t, module+"/...")
	if len(pkgs) < 4 {
		t.Fatalf("go list found %d packages of %s", len(pkgs), module)
	}
	for _, p := range pkgs {
		if p.ImportPath == module { // doc.go teaches, and imports nothing
			if len(p.Imports) > 0 {
				t.Errorf("the root package imports %q", p.Imports)
			}
			continue
		}
		from := layer(p.ImportPath)
		if from == "unknown" {
			t.Errorf("%s lies outside the folders that the design fixes", p.ImportPath)
			continue
		}
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			if under(imported, module) {
				if to := layer(imported); !under(to, mayImport[from]...) {
					t.Errorf("%s imports %s: %s may not import %s", rel, imported, from, to)
				}
			}
			for fenced, folders := range only {
				if under(imported, fenced) && !under(rel, folders...) {
					t.Errorf("%s imports %s, which belongs in %v only", rel, imported, folders)
				}
			}
		}
	}
}

func TestVocabularyUsesTheStandardLibraryOnly(t *testing.T) {
	for _, root := range []string{module + "/sdk", module + "/sdk/cascade"} {
		for _, p := range list(t, "-deps", root) {
			if !p.Standard && !under(p.ImportPath, module) {
				t.Errorf("%s depends on %s", root, p.ImportPath)
			}
		}
	}
}

func TestMiddlewareLinksTheCoreOfLangchaingoOnly(t *testing.T) {
	allowed := []string{"llms", "schema", "callbacks"}
	for _, p := range list(t, "-deps", module+"/middleware/...") {
		const framework = "github.com/tmc/langchaingo/"
		if rest, ok := strings.CutPrefix(p.ImportPath, framework); ok && !under(rest, allowed...) {
			t.Errorf("middleware links %s", p.ImportPath)
		}
		if under(strings.TrimPrefix(p.ImportPath, framework), "llms/openai", "llms/anthropic", "llms/ollama", "llms/mistral") {
			t.Errorf("middleware links the provider %s", p.ImportPath)
		}
	}
}

// TestWrapLinksLittle: a program that provides its models itself links no provider, store, plugins or their
// dependencies.
func TestWrapLinksLittle(t *testing.T) {
	const most = 150 // packages besides the standard library's
	p := list(t, module+"/adapters/router")[0]
	var others []string
	for _, dep := range p.Deps {
		if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
			others = append(others, dep)
		}
		for _, heavy := range []string{"google.golang.org/grpc", "github.com/hashicorp/go-plugin", "github.com/jackc/pgx", "modernc.org/sqlite", module + "/adapters/provider", module + "/adapters/internal/host"} {
			if dep == heavy || strings.HasPrefix(dep, heavy+"/") {
				t.Errorf("package router imports %s", dep)
			}
		}
	}
	if len(others) > most {
		t.Errorf("package router needs %d packages besides the standard library's, want at most %d", len(others), most)
	}
}
