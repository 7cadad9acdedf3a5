package runner

import (
	"path"
	"regexp"
	"strings"
)

var (
	javaWord = regexp.MustCompile(`[\w./{}$-]+`)
	// javaRoot is how build files name their own folder.
	javaRoot = regexp.MustCompile(`^\$\{?[\w.]+}?/`)
	// javaTests are folders of tests, and of builds that are a part of this one.
	javaTests = regexp.MustCompile(`<testSourceDirectory>\s*([^<]+?)\s*<|<testResource>\s*<directory>\s*([^<]+?)\s*<|\bincludeBuild\s*\(?\s*["']([^"']+)["']`)
)

// javaFiles adds what build files of Maven and Gradle name, sources aside, their
// folders of tests, and what was built: what is there is not always built anew.
func (o *operands) javaFiles() {
	for _, file := range o.tree.Files {
		base, output := path.Base(file), "build"
		switch {
		case base == "pom.xml":
			output = "target"
		case strings.HasSuffix(base, ".gradle"), strings.HasSuffix(base, ".gradle.kts"):
		default:
			continue
		}
		text, folder := o.text(file), path.Dir(file)
		o.built = append(o.built, strings.TrimPrefix(folder+"/", "./")+output+"/**")
		for _, match := range javaTests.FindAllStringSubmatch(text, -1) {
			word := javaRoot.ReplaceAllString(match[1]+match[2]+match[3], "")
			if name, ok := o.place(path.Join(folder, word)); ok {
				o.patterns = append(o.patterns, name+"/**")
			}
		}
		for _, word := range javaWord.FindAllString(text, -1) {
			name, ok := o.place(path.Join(folder, javaRoot.ReplaceAllString(word, "")))
			if _, known := o.files[name]; ok && known && !isJVM(name) {
				o.files[name] = true
			}
		}
	}
}
