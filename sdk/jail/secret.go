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
	if slices.ContainsFunc(folders, isMadeUp) {
		return false
	}
	// A copy is as secret as what it is a copy of.
	for again := true; again; {
		again = false
		for _, ending := range copyEndings {
			if stem, ok := strings.CutSuffix(base, ending); ok && stem != "" {
				base, again = stem, true
			}
		}
	}
	ending := path.Ext(base)
	if slices.Contains(secretNames, base) || slices.Contains(secretEndings, ending) {
		return true
	}
	for _, start := range []string{".env.", ".env-", ".env_"} {
		if rest, ok := strings.CutPrefix(base, start); ok {
			return !slices.Contains(harmlessEnvironments, rest)
		}
	}
	if rest, ok := strings.CutSuffix(base, ".env"); ok {
		return !slices.Contains(harmlessEnvironments, rest)
	}
	for _, start := range privateKeys {
		if strings.HasPrefix(base, start) && ending == "" {
			return true
		}
	}
	for _, start := range accountFiles {
		if strings.HasPrefix(base, start) && ending == ".json" {
			return true
		}
	}
	return false
}

var (
	secretFolders = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud", ".oci"}
	secretNames   = []string{
		".env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".npmrc", ".pypirc", ".dockercfg", ".vault-token",
		".htpasswd", ".s3cfg", ".boto", ".terraformrc", "terraform.tfvars", ".sentryclirc", "kubeconfig",
		"credentials", "credentials.json", "credentials.toml", "credentials.yml", "credentials.yaml", "application_default_credentials.json",
		"secrets.json", "secrets.yml", "secrets.yaml", "secrets.toml",
	}
	privateKeys          = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
	accountFiles         = []string{"client_secret", "service-account", "service_account", "serviceaccount"}
	copyEndings          = []string{"~", ".bak", ".backup", ".old", ".orig", ".save", ".copy", ".swp"}
	secretEndings        = []string{".pem", ".key", ".p12", ".p8", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate"}
	packageFolders       = []string{"node_modules", "site-packages", "dist-packages", "vendor", "third_party", ".venv", "venv"}
	harmlessEnvironments = []string{"example", "sample", "template", "dist", "test", "tests", "testing", "ci", "defaults", "schema"}
)

// isMadeUp reports whether a folder is one of tests, fixtures or examples, or of
// packages of others: one of its words says so. "docker" and "latest" do not.
func isMadeUp(folder string) bool {
	if slices.Contains(packageFolders, folder) {
		return true
	}
	words := strings.FieldsFunc(folder, func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "test") || strings.HasSuffix(word, "tests") || slices.Contains(madeUpWords, strings.TrimSuffix(word, "s"))
	})
}

var madeUpWords = []string{"fixture", "spec", "example", "sample", "mock", "demo", "doc", "documentation"}
