package swe

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Diff returns the changes in the tree as a patch, including new files. leftOut lists what a patch could not be
// applied with: symbolic links, binary files such as the output of a compiler or a database, installed packages,
// repositories within the tree, files that cannot be read, and names with control characters.
func (c *Checkout) Diff(ctx context.Context) (patch string, leftOut []string, err error) {
	unborn, err := c.addNew(ctx)
	if err != nil {
		return "", nil, err
	}
	excluded := excludePaths(c.linked)
	asText := []string{"--no-color", "--src-prefix=a/", "--dst-prefix=b/"}
	// One git call suffices for most attempts, which leave no binary files.
	both, err := c.diff(ctx, append([]string{"--raw", "--numstat", "--patch"}, asText...), excluded...)
	summary, patch, _ := strings.Cut(both, "\n\n")
	if err == nil && !unfitSummary.MatchString(summary) {
		return patch, unborn, nil
	}
	// What cannot be read is known before git reads any file, where it would fail.
	for _, option := range []string{"--raw", "--numstat"} {
		changes, err := c.diff(ctx, []string{option, "-z", "--no-renames"}, append(excluded, excludePaths(leftOut)...)...)
		if err != nil {
			return "", nil, err
		}
		leftOut = append(leftOut, c.unfitForPatch(changes)...)
	}
	patch, err = c.diff(ctx, asText, append(excluded, excludePaths(leftOut)...)...)
	return patch, append(unborn, leftOut...), err
}

// addNew lets git know of new files. unborn are the repositories within the tree that have no commit yet, which git
// refuses to add.
func (c *Checkout) addNew(ctx context.Context) (unborn []string, err error) {
	add := []string{"add", "--all", "--intent-to-add", "."}
	if _, err = c.git(ctx, add...); err == nil {
		return nil, nil
	}
	others, listing := c.git(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(others, "\x00") {
		if folder, isRepository := strings.CutSuffix(name, "/"); isRepository {
			unborn = append(unborn, folder)
		}
	}
	if listing != nil || len(unborn) == 0 {
		return nil, err
	}
	_, err = c.git(ctx, append(add, excludePaths(unborn)...)...)
	return unborn, err
}

func excludePaths(paths []string) (list []string) {
	for _, path := range paths {
		list = append(list, ":(exclude,literal)"+path)
	}
	return list
}

// binaryNumstat is how a --numstat line of a binary file begins.
const binaryNumstat = "-\t-\t"

// unfitSummary matches a summary in which [Checkout.unfitForPatch] can find something: what is removed may only be
// out of reach.
var unfitSummary = regexp.MustCompile(`(?m)^-\t-\t|^:\d+ 1[26]0000 |^:\d.* D\t|\t"|pyvenv\.cfg|node_modules/`)

// unfitForPatch returns the paths that a patch cannot hold. changes is the output of git diff --raw -z or --numstat -z.
func (c *Checkout) unfitForPatch(changes string) (paths []string) {
	fields := strings.Split(changes, "\x00")
	for i, field := range fields {
		path := ""
		switch modes := strings.Fields(field); {
		case strings.HasPrefix(field, binaryNumstat):
			path = strings.TrimPrefix(field, binaryNumstat)
		case strings.HasPrefix(field, ":") && len(modes) == 5 && i+1 < len(fields):
			path = c.unfitPath(modes, fields[i+1])
		}
		if path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	all := slices.Clone(paths)
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(all, func(folder string) bool { return strings.HasPrefix(path, folder+"/") })
	})
}

// unfitPath returns the changed path, or a folder above it, that a patch cannot hold, or "". modes are the fields
// before the name in a raw diff.
func (c *Checkout) unfitPath(modes []string, name string) string {
	const link, repository = "120000", "160000"
	isHidden := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	if folder := installedFolder(name); modes[4] == "A" && folder != "" {
		return folder
	}
	if modes[1] == link || modes[1] == repository || !utf8.ValidString(name) || strings.ContainsFunc(name, isHidden) {
		return name
	}
	return c.unreadable(name)
}

// unreadable returns the path itself, or the first folder above it, that its owner may not read, or "".
func (c *Checkout) unreadable(name string) string {
	for end, r := range name + "/" {
		if r != '/' {
			continue
		}
		info, err := os.Lstat(filepath.Join(c.Dir, name[:end]))
		if err != nil {
			return ""
		}
		if may := info.Mode().Perm(); may&0o400 == 0 || info.IsDir() && may&0o100 == 0 {
			return name[:end]
		}
	}
	return ""
}

// installedFolder returns the folder of installed packages that a new file belongs to, or "".
func installedFolder(name string) string {
	if dir, ok := strings.CutSuffix(name, "/pyvenv.cfg"); ok {
		return dir
	}
	if i := strings.Index("/"+name, "/node_modules/"); i >= 0 {
		return name[:i+len("node_modules")]
	}
	return ""
}

// printable returns the names, those with control characters quoted.
func printable(names []string) (shown []string) {
	for _, name := range names {
		if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
			name = quoted
		}
		shown = append(shown, name)
	}
	return shown
}
