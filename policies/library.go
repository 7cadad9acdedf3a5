package policies

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed library/*.hcl
var library embed.FS

const (
	libraryPrefix = "library:"
	catalogFile   = libraryPrefix + "catalog"
)

func catalogSource() []byte {
	src, err := LibrarySource("catalog")
	if err != nil {
		panic("policies: the catalogue is embedded: " + err.Error())
	}
	return src
}

// Library returns the sorted names of the policies that ship with stepfall. They are loaded and included as
// "library:NAME".
func Library() []string {
	entries, err := library.ReadDir("library")
	if err != nil {
		panic("policies: the library is embedded: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".hcl"); name != "catalog" {
			names = append(names, name)
		}
	}
	return names
}

// LibrarySource returns the source of a policy of the library, or of the catalogue of models, "catalog".
func LibrarySource(name string) ([]byte, error) {
	src, err := library.ReadFile("library/" + name + ".hcl")
	if err != nil {
		return nil, fmt.Errorf("the library has no policy %q; it has %s", name, strings.Join(Library(), ", "))
	}
	return src, nil
}
