package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/policies"
)

// Values of --for. programAuto guesses from the sources in the folder.
const (
	programAuto    = "auto"
	programChat    = "chat"
	programAgent   = "agent"
	programPatches = "patches"
)

var programKinds = []string{programAuto, programChat, programAgent, programPatches}

// agentSigns matches the source of a program that gives its model tools.
var agentSigns = regexp.MustCompile(`llms\.WithTools|llms\.WithFunctions|langchaingo/agents|bind_tools|create_react_agent|AgentExecutor|function_call|tool_calls|\btools\s*[=:]\s*[\[A-Za-z]|"tools"|mcp\.`)

// sourceFiles matches the names of source files to scan, maxSources bounds their number and maxSource their size in
// bytes.
var sourceFiles = regexp.MustCompile(`\.(go|py|ts|tsx|js|mjs|rb|java|kt|rs)$`)

const (
	maxSources = 400
	maxSource  = 1 << 20
)

// programOf guesses from the sources below a folder whether a program is an agent or a chat. It returns the file with
// signs of an agent, or "".
func programOf(dir string) (program, file string) {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read tells nothing
		}
		if d.IsDir() {
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "vendor", "testdata", "dist", "build"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !sourceFiles.MatchString(path) {
			return nil
		}
		if n++; n > maxSources {
			return filepath.SkipAll
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxSource {
			return nil //nolint:nilerr // it went away: it tells nothing
		}
		text, err := os.ReadFile(path)
		if err == nil && agentSigns.Match(text) {
			file = path
			return filepath.SkipAll
		}
		return nil
	})
	if err == nil && file != "" {
		return programAgent, filepath.ToSlash(file)
	}
	return programChat, ""
}

// pairOf returns the pair of cheap models and the large one for an agent's policy, or an error that says why there is
// none.
func pairOf(list []offer) (*policies.Pair, error) {
	if len(list) == 0 {
		return nil, errors.New("the environment offers none: set two of " + otherKeys(nil))
	}
	p, err := parseOffers(list)
	if err != nil {
		return nil, err
	}
	pair, err := p.CheapPair()
	if errors.Is(err, policies.ErrNoPair) {
		return nil, fmt.Errorf("%w: set another key, of %s", err, otherKeys(list))
	}
	return pair, err
}

// otherKeys lists the key variables of providers that are not in the list.
func otherKeys(list []offer) string {
	var keys []string
	for _, m := range makers {
		if !slices.ContainsFunc(list, func(o offer) bool { return o.Key == m.key }) {
			keys = append(keys, m.key)
		}
	}
	if len(keys) == 0 {
		return "a third maker"
	}
	return strings.Join(keys, ", ")
}
