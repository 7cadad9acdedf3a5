package jail

import (
	"path"
	"slices"
	"strings"
)

// LooksSecret reports whether the file of this slash-separated path, relative to a
// work tree, is one that usually holds keys or passwords: work trees for agents and
// runs of tests are made without it. What lies in folders of tests, fixtures and
// examples is taken to be made up, and what lies in packages of others to be public.
func LooksSecret(name string) bool {
	name = strings.ToLower(name)
	folders := strings.Split(path.Dir(name), "/")
	base := path.Base(name)
	for _, folder := range folders {
		if slices.Contains(secretFolders, folder) {
			return true
		}
	}
	if slices.ContainsFunc(folders, madeUp) {
		return false
	}
	if slices.Contains(secretNames, base) || slices.Contains(secretEndings, path.Ext(base)) {
		return true
	}
	if rest, ok := strings.CutPrefix(base, ".env."); ok {
		return !slices.Contains(harmlessEnvironments, rest)
	}
	for _, start := range []string{"client_secret", "service-account", "service_account"} {
		if strings.HasPrefix(base, start) && path.Ext(base) == ".json" {
			return true
		}
	}
	return false
}

var (
	secretFolders = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure"}
	secretNames   = []string{
		".env", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".npmrc", ".pypirc", ".dockercfg", ".vault-token",
		"credentials", "credentials.json", "secrets.json", "secrets.yml", "secrets.yaml", "secrets.toml",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
	}
	secretEndings        = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate"}
	packageFolders       = []string{"node_modules", "site-packages", "dist-packages", "vendor", "third_party", ".venv", "venv"}
	harmlessEnvironments = []string{"example", "sample", "template", "dist", "test", "tests", "testing", "ci", "defaults", "schema"}
)

// madeUp reports whether a folder is one of tests, fixtures or examples, or of
// packages of others.
func madeUp(folder string) bool {
	if slices.Contains(packageFolders, folder) {
		return true
	}
	for _, word := range []string{"test", "fixture", "spec", "example", "sample", "mock", "demo", "doc"} {
		if strings.Contains(folder, word) {
			return true
		}
	}
	return false
}
