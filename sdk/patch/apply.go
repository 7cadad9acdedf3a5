package patch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
)

// File is the new state of one file.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
	Delete  bool
}

// maxFile is the size in bytes of the largest file that can be edited.
const maxFile = 32 << 20

// Apply applies the edits in order to files of tree, which is only read, and returns
// the changed files in the order in which they were first edited. An *Error means
// that the answer does not fit the tree; any other error, that the tree could not be
// read.
func Apply(tree fs.FS, edits []Edit) ([]File, error) {
	if len(edits) == 0 {
		return nil, &Error{Reason: "the answer holds no edit: no file, no diff, no search/replace block"}
	}
	a := &applier{tree: tree, files: map[string]*File{}}
	for _, edit := range edits {
		if err := a.edit(edit); err != nil {
			return nil, err
		}
	}
	if len(a.order) == 0 {
		return nil, &Error{Path: edits[0].Path, Reason: "the answer only shows it unchanged or as an illustration: no edit can be read", Unread: true}
	}
	for _, name := range a.order {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if file, ok := a.files[dir]; ok && !file.Delete && !a.files[name].Delete {
				return nil, &Error{Path: dir, Reason: "would be a file and a folder"}
			}
		}
	}
	files := make([]File, len(a.order))
	for i, name := range a.order {
		files[i] = *a.files[name]
	}
	return files, nil
}

// ApplyToMap is [Apply] on files in a map by path. It returns a new map.
func ApplyToMap(files map[string]string, edits []Edit) (map[string]string, error) {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	changed, err := Apply(tree, edits)
	if err != nil {
		return nil, err
	}
	after := maps.Clone(files)
	for _, file := range changed {
		if file.Delete {
			delete(after, file.Path)
			continue
		}
		after[file.Path] = string(file.Content)
	}
	return after, nil
}

type applier struct {
	tree  fs.FS
	work  work
	files map[string]*File
	order []string
}

func (a *applier) edit(edit Edit) error {
	edit.Path = a.resolvePath(edit)
	if isMeant, err := a.isIntended(edit); err != nil || !isMeant {
		return err
	}
	if err := edit.check(); err != nil {
		return err
	}
	if edit.Kind == whole {
		return a.replaceFile(edit)
	}
	from := cmp.Or(edit.From, edit.Path)
	old, exists, err := a.read(from)
	if err != nil {
		return err
	}
	content, err := a.change(edit, old, exists)
	if err != nil {
		return err
	}
	return a.write(edit, from, restoreLineEnds(old, content))
}

// write sets the content of the edited file, and removes its old path or the deleted file.
func (a *applier) write(edit Edit, from, content string) error {
	if edit.Delete || from != edit.Path && !edit.Copy {
		if err := a.set(from, "", true); err != nil || edit.Delete {
			return err
		}
	}
	if err := a.set(edit.Path, content, false); err != nil {
		return err
	}
	a.files[edit.Path].Mode = cmp.Or(edit.Mode, a.files[edit.Path].Mode)
	return nil
}

// resolvePath returns the path of the edited file; see [Edit.Spaced] and [Edit.Near].
func (a *applier) resolvePath(edit Edit) string {
	if edit.Spaced != "" && a.isFile(edit.Spaced) {
		edit.Path = edit.Spaced
	}
	first, _, _ := strings.Cut(edit.Path, "/")
	if isElsewhere := first == "" || !a.exists(first); edit.Near != "" && isElsewhere && a.isFile(edit.Near) {
		return edit.Near
	}
	return edit.Path
}

// check returns an error for an edit that is invalid in any tree.
func (e *Edit) check() error {
	if e.Path == "" && e.Refused != "" {
		return &Error{Reason: e.Refused, Unread: e.Unread}
	}
	if err := checkPath(e.Path); err != nil {
		return err
	}
	if e.From != "" {
		if err := checkPath(e.From); err != nil {
			return err
		}
	}
	if e.Refused != "" {
		return &Error{Path: e.Path, Reason: e.Refused}
	}
	return nil
}

func (a *applier) exists(name string) bool {
	_, err := fs.Stat(a.tree, name)
	return err == nil
}

// isFile reports whether a file of that name exists after the edits so far.
func (a *applier) isFile(name string) bool {
	_, exists, err := a.read(name)
	return err == nil && exists
}

// isIntended reports whether a Mentioned edit is a real edit: its path is valid in the tree, a moved or
// deleted file exists, and the content is not a quotation of the file. The error is set if a block could be
// either a part of the file or all of it.
func (a *applier) isIntended(edit Edit) (bool, error) {
	if !edit.Mentioned {
		return edit.Path != "" || edit.Kind != whole, nil
	}
	if edit.check() != nil || strings.HasPrefix(edit.Path, "~") {
		return false, nil
	}
	old, exists, err := a.read(cmp.Or(edit.From, edit.Path))
	if misfit := (*Error)(nil); errors.As(err, &misfit) {
		misfit.Unread = true
	}
	if err != nil || edit.Kind != whole || !exists {
		return exists || edit.Kind == whole, err
	}
	if err := a.work.add(len(old) + len(edit.Content)); err != nil {
		return false, err
	}
	if _, isEdited := a.files[edit.Path]; isEdited {
		original, _, err := (&applier{tree: a.tree}).read(edit.Path)
		if err != nil || slices.Equal(textOf(original), textOf(edit.Content)) {
			return false, err
		}
	}
	return isWholeOf(edit.Path, textOf(old), textOf(edit.Content))
}

// isWholeOf reports whether a block is a new version of the file rather than a quotation.
func isWholeOf(path string, lines, block []string) (bool, error) {
	if len(block) == 0 {
		return false, nil
	}
	if _, count := occurrences(lines, block, 0); count > 0 && len(block) < len(lines) {
		return false, nil
	}
	last := len(block) - 1
	if len(block) < len(lines)/2 && (block[0] != lines[0] || block[last] != lines[len(lines)-1]) {
		return false, &Error{Path: path, Reason: "its block may be the whole file or a part of it", Unread: true}
	}
	return true, nil
}

// textOf returns the non-empty lines, without surrounding space.
func textOf(text string) []string {
	return slices.DeleteFunc(mapLines(strings.Split(text, "\n"), strings.TrimSpace), func(line string) bool { return line == "" })
}

func (a *applier) replaceFile(edit Edit) error {
	if edit.Fenced {
		old, _, err := a.read(edit.Path)
		if misfit := (*Error)(nil); err != nil && !errors.As(err, &misfit) {
			return err
		}
		if old != "" && !strings.HasSuffix(old, "\n") {
			edit.Content = strings.TrimSuffix(edit.Content, "\n")
		}
	}
	return a.set(edit.Path, edit.Content, false)
}

// restoreLineEnds returns content with carriage returns if every line of the old file had one; answers are
// parsed without them.
func restoreLineEnds(old, content string) string {
	if lines := strings.Count(old, "\n"); lines == 0 || strings.Count(old, "\r\n") != lines {
		return content
	}
	return strings.ReplaceAll(strings.ReplaceAll(content, "\r\n", "\n"), "\n", "\r\n")
}

// change returns the content of a file after a diff or search/replace edit.
func (a *applier) change(edit Edit, old string, exists bool) (string, error) {
	if err := a.work.add(len(old)); err != nil { // the file is read and written
		return "", err
	}
	if edit.Delete {
		if exists {
			return "", nil
		}
		return "", &Error{Path: cmp.Or(edit.From, edit.Path), Reason: "cannot be deleted: does not exist"}
	}
	switch {
	case !exists && !edit.canCreate():
		return "", &Error{Path: edit.Path, Reason: "does not exist"}
	case edit.Kind == Replace:
		return a.replace(edit, old, exists)
	case edit.New:
		old = "" // a diff that creates a file replaces an existing one
	}
	return a.work.applyHunks(edit, old)
}

func (a *applier) replace(edit Edit, old string, exists bool) (string, error) {
	if !exists {
		return edit.Content, nil
	}
	content, err := a.work.replaceOnce(old, edit.Search, edit.Content)
	if misfit, ok := errors.AsType[*Error](err); ok {
		err = &Error{Path: edit.Path, Reason: misfit.Reason}
	}
	return content, err
}

// canCreate reports whether a diff or search/replace edit can create its file.
func (e *Edit) canCreate() bool {
	if e.Kind == Replace {
		return strings.TrimSpace(e.Search) == ""
	}
	return e.New || len(e.Hunks) > 0 && !slices.ContainsFunc(e.Hunks, func(h hunk) bool { return len(h.Old) > 0 })
}

func checkPath(name string) error {
	if name == "" {
		return &Error{Reason: "an edit names no file", Unread: true}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || name == "." {
		return &Error{Path: name, Reason: "is outside of the work tree"}
	}
	if err := checkLength(name); err != nil {
		return err
	}
	for part := range strings.SplitSeq(name, "/") {
		if isGitFolder(part) {
			return &Error{Path: name, Reason: "is inside the repository's own folder"}
		}
	}
	return nil
}

// read returns the content of a file after the edits so far.
func (a *applier) read(name string) (content string, exists bool, err error) {
	if file, ok := a.files[name]; ok {
		return string(file.Content), !file.Delete, nil
	}
	info, err := fs.Stat(a.tree, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, &Error{Path: name, Reason: fmt.Sprintf("cannot be edited: %v", err)}
	case !info.Mode().IsRegular():
		return "", false, &Error{Path: name, Reason: "is no regular file"}
	}
	file, err := a.tree.Open(name)
	if err != nil {
		return "", false, fmt.Errorf("reading %s: %w", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", false, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(data) > maxFile {
		return "", false, &Error{Path: name, Reason: "is too large to be edited"}
	}
	return string(data), true, nil
}

func (a *applier) set(name, content string, remove bool) error {
	if len(content) > maxFile {
		return &Error{Path: name, Reason: "becomes too large"}
	}
	if len(a.files) >= maxFiles {
		return &Error{Reason: fmt.Sprintf("the answer changes more than %d files", maxFiles)}
	}
	file, ok := a.files[name]
	if !ok {
		file = &File{Path: name}
		switch info, err := fs.Stat(a.tree, name); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return &Error{Path: name, Reason: fmt.Sprintf("cannot be written: %v", err)}
		case info.IsDir():
			return &Error{Path: name, Reason: "is a folder"}
		default:
			file.Mode = info.Mode().Perm()
		}
		a.files[name] = file
		a.order = append(a.order, path.Clean(name))
	}
	file.Content, file.Delete = []byte(content), remove
	return nil
}
