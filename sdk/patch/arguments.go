package patch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// contentFields are the names of JSON fields that hold the new content of a whole file.
var contentFields = []string{"content", "file_text", "contents", "new_content", "code"}

func parseArguments(arguments string) []Edit {
	var value any
	if json.Unmarshal([]byte(arguments), &value) != nil {
		return nil
	}
	return editsOf(value, "")
}

// parseJSON returns the edits in the JSON value at the beginning of lines, and its number of lines.
func parseJSON(lines []string) ([]Edit, int) {
	text := strings.Join(lines, "\n")
	decoder := json.NewDecoder(strings.NewReader(text))
	var value any
	if decoder.Decode(&value) != nil {
		return nil, 0
	}
	edits := editsOf(value, "")
	return edits, strings.Count(text[:decoder.InputOffset()], "\n") + 1
}

// editsOf returns the edits in a JSON value: an object with a path and a change, a map from paths to
// contents, a patch, or values nested in others. Nested objects inherit the path unless they have their own.
func editsOf(value any, file string) (edits []Edit) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			edits = append(edits, editsOf(one, file)...)
		}
	case string:
		switch text := strings.TrimSpace(value); {
		case strings.HasPrefix(text, "*** Begin Patch"):
			edits = parseText(text)
		case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["):
			edits = parseArguments(text)
		}
	case map[string]any:
		edits = editsOfObject(value, file)
	}
	return edits
}

func editsOfObject(fields map[string]any, file string) []Edit {
	if diff, ok := textOfField(fields, "patch", "diff"); ok {
		return parseText(diff)
	}
	if own, ok := textOfField(fields, "path", "file_path", "filePath", "filepath", "target_file", "file", "filename"); ok {
		file = cleanPath(own)
	}
	if old, ok := textOfField(fields, "old_string", "old_str", "search"); ok && file != "" {
		content, _ := textOfField(fields, "new_string", "new_str", "replace")
		return []Edit{{Kind: Replace, Path: file, Search: old, Content: content}}
	}
	if content, ok := textOfField(fields, contentFields...); ok && file != "" {
		return []Edit{{Kind: whole, Path: file, Content: content}}
	}
	return editsOfFields(fields, file)
}

func editsOfFields(fields map[string]any, file string) (edits []Edit) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		content, isText := fields[name].(string)
		isFile := isText && looksLikePath(name) && strings.Contains(content, "\n") && !strings.HasPrefix(content, "*** Begin Patch")
		if isFile && file == "" {
			edits = append(edits, Edit{Kind: whole, Path: cleanPath(name), Content: content})
		} else {
			edits = append(edits, editsOf(fields[name], file)...)
		}
	}
	return edits
}

// textOfField returns the first string among the fields with these names.
func textOfField(fields map[string]any, names ...string) (text string, found bool) {
	for _, name := range names {
		if text, found = fields[name].(string); found {
			return text, true
		}
	}
	return "", false
}
