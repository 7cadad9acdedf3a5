package runner

import "path"

// anyLanguage looks into files as the runner of their language does, for commands that
// do not say what they run: a script or a makefile may run any.
type anyLanguage struct{}

var (
	_ ContentGuard = (*exitCode)(nil)
	_ Restorer     = (*exitCode)(nil)
	_ ContentGuard = (*junit)(nil)
	_ Restorer     = (*junit)(nil)
)

// Decides: see [ContentGuard].
func (anyLanguage) Decides(file string, before, after []byte) bool {
	switch path.Ext(file) {
	case ".rs":
		return (&cargo{}).Decides(file, before, after)
	case ".go", ".mod":
		return (&goTest{}).Decides(file, before, after)
	case ".py":
		return newPytest().Decides(file, before, after)
	case ".java", ".kt", ".groovy", ".scala":
		return javaDecides(file, before)
	}
	return newNode().Decides(file, before, after)
}

// Suspect: see [ContentGuard].
func (anyLanguage) Suspect(tree *Tree, file string, before, after []byte) string {
	if why := javaSuspect(tree, file, before, after); why != "" {
		return why
	}
	return (&cargo{}).Suspect(tree, file, before, after)
}

// Restore: see [Restorer].
func (anyLanguage) Restore(file string, before, after []byte) []byte {
	return (&cargo{}).Restore(file, before, after)
}
