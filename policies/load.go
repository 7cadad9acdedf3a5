package policies

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/zclconf/go-cty/cty"
)

// LoadOptions configures Load. The zero value reads the process's environment, has no overrides and does
// not check the plugins' config blocks.
type LoadOptions struct {
	// Env is the environment in the form of os.Environ; nil means the process's own. It provides the values
	// of env() and the STEPFALL__ overrides.
	Env []string
	// Sets are the --set arguments: `budget.step_usd=0.05`.
	Sets []string
	// Schemas finds the schema of a plugin's config block; nil checks no config blocks.
	Schemas SchemaSource
	// CheckProfile checks the fitted profile at path against the policy and returns an error describing any
	// mismatch, or else the models whose answers the profile takes for judged; nil checks only that the file exists.
	CheckProfile func(path string, p *Policy) (judged []string, err error)
	// Today, unless zero, is the date for judging the age of the catalogue's prices: a warning names those
	// recorded more than 18 months before it.
	Today time.Time
	// WithoutProfile ignores the fit block, for programs that are about to create the profile.
	WithoutProfile bool
	// RequireSecrets makes it an error if an environment variable that env() names is not set; otherwise it is a
	// warning.
	RequireSecrets bool
	// HasVerifier means that something outside the policy judges answers.
	HasVerifier bool
	// Patches means that every query will name a work tree or tests, so that verifiers which need them
	// apply. If the policy sets no timeout, a verifier without a max_usd can then take ten minutes, because
	// compiling and running tests does.
	Patches bool
	// WithoutSecrets does not read the variables that env() names, for programs that call no models.
	WithoutSecrets bool
}

// Load reads the policy at path, which is a file, a folder of .hcl files, or "library:NAME".
// If the policy has errors, the returned error is a [Diagnostics]. Warnings alone are not an error; they
// are in the policy.
func Load(path string, o LoadOptions) (*Policy, error) {
	l := newLoader(o)
	l.loadFiles(path)
	return l.build(path)
}

// Parse reads a policy from memory. name is its name in diagnostics, and relative paths are resolved in its
// folder.
func Parse(name string, src []byte, o LoadOptions) (*Policy, error) {
	l := newLoader(o)
	l.setFolder(filepath.Dir(name))
	l.loadCatalog()
	l.loadSource(name, l.dir, src)
	return l.build(name)
}

type loader struct {
	o   LoadOptions
	dir string
	// roots are the folders that the policy may read, with symbolic links resolved.
	roots   []string
	k       *koanf.Koanf
	values  []value
	headers map[string]*header
	ordinal int
	sources map[string][]byte
	secrets []string
	diags   Diagnostics
	// reported counts the diagnostics of each severity, including those beyond the limit.
	reported  [2]int
	loaded    []string
	including []string
	broken    bool
	tree      map[string]any
	top       hcl.Range
	places    map[string]leaf
	settings  []Setting

	scopes     map[string]*hcl.EvalContext
	locals     map[string]cty.Value
	localTree  map[string]any
	usedLocals map[string]bool
	environ    map[string]string
	// faulty has the paths of blocks with a reported fault, to suppress consequential errors.
	faulty map[string]bool
	// unset has the missing environment variables that were reported.
	unset map[string]bool
	// work limits the evaluation of expressions; size is the total size of the files so far.
	work *meter
	size int
	// isValue means that the policy is a value in a Go program: environment variables that match nothing may
	// be meant for policies in files, and are ignored.
	isValue bool
	ignored []string
}

func newLoader(o LoadOptions) *loader {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	l := &loader{
		o: o, k: koanf.NewWithConf(koanf.Conf{Delim: delim}),
		headers: map[string]*header{}, sources: map[string][]byte{}, places: map[string]leaf{},
		scopes: map[string]*hcl.EvalContext{}, usedLocals: map[string]bool{}, environ: map[string]string{},
		locals: map[string]cty.Value{}, faulty: map[string]bool{}, unset: map[string]bool{}, work: newMeter(),
	}
	for _, pair := range o.Env {
		if name, v, ok := strings.Cut(pair, "="); ok {
			l.environ[name] = v
		}
	}
	return l
}

func (l *loader) loadFiles(path string) {
	l.loadCatalog()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		l.setFolder(path)
		names := filesOf(path)
		if len(names) == 0 {
			l.complain(origin{rng: hcl.Range{Filename: path}}, "no policy here", "The folder has no file that ends in .hcl.", "")
			l.broken = true
			return
		}
		for _, name := range names {
			l.include(name, origin{rng: hcl.Range{Filename: name}})
		}
		return
	}
	l.setFolder(filepath.Dir(path))
	l.include(path, origin{rng: hcl.Range{Filename: path}})
}

func filesOf(folder string) []string {
	entries, _ := os.ReadDir(folder) // none when it cannot be read
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".hcl") {
			names = append(names, filepath.Join(folder, entry.Name()))
		}
	}
	return names
}

func (l *loader) loadCatalog() {
	l.loadSource(catalogFile, "", catalogSource())
	l.loaded = nil
}

// include loads one file, by path or library name. at is the position of the include.
func (l *loader) include(path string, at origin) {
	if slices.Contains(l.including, path) {
		l.complain(at, fmt.Sprintf("%s includes itself", path), strings.Join(append(slices.Clone(l.including), path), " -> "), "Remove one of these includes.")
		return
	}
	if slices.Contains(l.loaded, path) {
		return
	}
	if name, ok := strings.CutPrefix(path, libraryPrefix); ok {
		src, err := library.ReadFile("library/" + name + ".hcl")
		if err != nil || name == "catalog" {
			l.complain(at, fmt.Sprintf("the library has no policy %q", name), "", suggest(name, Library()))
			l.broken = true
			return
		}
		l.loadSource(path, l.dir, src)
		return
	}
	src, err := l.read(path, maxSource, len(l.including) == 0)
	if err != nil {
		l.complain(at, err.Error(), "", l.hintUnreadable(path, err))
		l.broken = true
		return
	}
	l.loadSource(path, filepath.Dir(path), src)
}

func (l *loader) loadSource(name, dir string, src []byte) {
	l.loaded = append(l.loaded, name)
	l.sources[name] = src
	if l.size += len(src); l.size > maxSources || len(l.loaded) > maxFiles {
		l.complain(origin{rng: hcl.Range{Filename: name}}, "the policy is too large", fmt.Sprintf("It has more than %d files, or they exceed %s together.", maxFiles, Bytes(maxSources)), "")
		l.broken = true
		return
	}
	l.including = append(l.including, name)
	defer func() { l.including = l.including[:len(l.including)-1] }()
	if name != catalogFile {
		l.top = hcl.Range{Filename: name}
	}
	err := l.k.Load(rawbytes.Provider(src), fileParser{l: l, name: name, dir: dir, layer: name})
	if err != nil {
		l.broken = true
	}
}

func (l *loader) hintUnreadable(path string, err error) string {
	name := strings.TrimSuffix(filepath.Base(path), ".hcl")
	switch isMissing := errors.Is(err, fs.ErrNotExist); {
	case isMissing && slices.Contains(Library(), name):
		return fmt.Sprintf("The policy that ships with stepfall is called %q.", libraryPrefix+name)
	case isMissing && len(l.including) > 0:
		return "Paths are relative to the file that includes."
	case isMissing:
		return "stepfall policy init writes a first policy."
	case errors.As(err, new(outsideError)):
		return hintOutside
	}
	return ""
}

func (p fileParser) loadIncludes(body *hclsyntax.Body) {
	a := body.Attributes["include"]
	if a == nil {
		return
	}
	at := origin{rng: a.Expr.Range()}
	p.l.work.countParts(a.Expr)
	v, diags := p.l.work.value(a.Expr, nil)
	if p.l.work.over != nil {
		p.l.reportLimit("")
		p.l.broken = true
		return
	}
	if diags.HasErrors() || !v.CanIterateElements() {
		p.l.complain(at, "include takes a list of strings", "It is read before anything else, so it can use no locals and no functions.", `Write include = ["prices.hcl", "library:swe"].`)
		p.l.broken = true
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if element.IsNull() || element.Type() != cty.String {
			p.l.complain(at, "include takes a list of strings", "", `Write include = ["prices.hcl", "library:swe"].`)
			p.l.broken = true
			return
		}
		path := element.AsString()
		if !strings.HasPrefix(path, libraryPrefix) {
			path = resolve(p.dir, path)
		}
		p.l.include(path, at)
	}
}

// The timeout of a verifier, unless the policy sets one: testsTimeout if it may have to run a patch's tests.
const (
	verifierTimeout = 30 * time.Second // the default of call_timeout, for plugins without a block
	testsTimeout    = 10 * time.Minute
)

// setTimeouts sets the timeout of verifiers that have none, so that it holds wherever they run.
func (l *loader) setTimeouts(p *Policy) {
	limits := map[string]time.Duration{}
	for i := range p.Plugins {
		limits[p.Plugins[i].Name] = p.Plugins[i].CallTimeout
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		usual := cmp.Or(limits[v.Plugin], verifierTimeout)
		if l.o.Patches && v.MaxUSD == 0 && !l.isGiven([]string{"plugin", v.Plugin}, "call_timeout") {
			usual = testsTimeout
		}
		v.Timeout = cmp.Or(v.Timeout, usual)
	}
}

func (l *loader) build(path string) (*Policy, error) {
	if len(l.values) > maxArguments {
		l.complain(origin{rng: l.top}, "the policy is too large", fmt.Sprintf("It has more than %d arguments.", maxArguments), "")
		l.broken = true
	}
	if l.broken {
		return nil, l.finish()
	}
	if err := l.mergeOverrides(); err != nil {
		return nil, err
	}
	l.tree = l.k.Raw()
	l.evalLocals(child(l.tree, "locals"))
	p := &Policy{Path: path, Files: l.loaded}
	l.decode(language(), l.tree, reflect.ValueOf(p).Elem(), nil, "")
	l.validate(p)
	diags := l.finish()
	if diags.HasErrors() {
		return nil, diags
	}
	p.expandCandidates()
	l.setTimeouts(p)
	p.Warnings, p.settings = diags, slices.DeleteFunc(l.settings, func(s Setting) bool { return s.Origin == "" })
	secrets := l.secrets
	p.secrets = func() []string { return secrets }
	p.Checksum = checksum(p.settings)
	return p, nil
}

// mergeOverrides adds the arguments set in the environment, and then those of --set.
func (l *loader) mergeOverrides() error {
	if len(l.o.Sets) > 0 || slices.ContainsFunc(l.o.Env, func(pair string) bool { return strings.HasPrefix(pair, envPrefix) }) {
		l.tree = l.k.Raw() // what the overrides can refer to
	}
	if err := l.k.Load(env.Provider(delim, env.Opt{
		Prefix: envPrefix, TransformFunc: l.parseEnv, EnvironFunc: func() []string { return slices.Sorted(slices.Values(l.o.Env)) },
	}), nil); err != nil {
		return fmt.Errorf("merging the environment: %w", err)
	}
	if len(l.ignored) > 0 {
		l.warn(origin{rng: l.top}, "environment variables without effect", strings.Join(l.ignored, ", ")+": this policy is a value in a Go program, and has no such argument.", "")
	}
	for _, text := range l.o.Sets {
		if m := l.parseSet(text); m != nil {
			if err := l.k.Load(confmap.Provider(m, ""), nil); err != nil {
				return fmt.Errorf("merging --set %s: %w", text, err)
			}
		}
	}
	return nil
}

func checksum(settings []Setting) string {
	sum := sha256.New()
	for _, s := range settings {
		if s.Path[0] == "catalog" || s.Path[0] == "include" {
			continue // their effect is in the models that use them
		}
		fmt.Fprintf(sum, "%q=%s\n", s.Path, s.Value)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Settings returns every argument of the effective policy, including defaults, in the order of the
// language, each with the origin of its value.
func (p *Policy) Settings() []Setting { return p.settings }

// Secrets returns the values that env() read, for programs that keep them out of traces and logs.
func (p *Policy) Secrets() []string {
	if p.secrets == nil {
		return nil
	}
	return p.secrets()
}

// Redact returns text without the policy's secrets, which are the values that env() read.
func (p *Policy) Redact(text string) string {
	return maskSecrets(text, p.Secrets())
}
