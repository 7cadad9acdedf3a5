package jail

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// LooksSecret reports whether a file with this slash-separated path, relative to a work tree, usually
// holds keys or passwords. Work trees for agents and test runs are made without such files. Files in
// folders of tests, fixtures and examples are assumed to be made up, and files in third-party packages
// to be public.
func LooksSecret(name string) bool {
	name = strings.ToLower(name)
	folders, base := strings.Split(path.Dir(name), "/"), path.Base(name)
	if slices.ContainsFunc(folders, func(folder string) bool { return slices.Contains(secretFolders, folder) }) {
		return true
	}
	if slices.ContainsFunc(folders, isHarmless) {
		return false
	}
	base = backupFile.ReplaceAllString(base, "$1")
	if environment := environmentFile.FindStringSubmatch(base); environment != nil {
		return !slices.Contains(harmlessEnvironments, environment[1]+environment[2])
	}
	return secretFile.MatchString(base)
}

var (
	secretFolders = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud", ".oci"}
	// secretFile matches file names: exact names, extensions, private keys, and service accounts.
	secretFile = regexp.MustCompile(`(?s)^(?:` +
		`\.envrc|[._]netrc|\.pgpass|\.my\.cnf|\.git-credentials|\.npmrc|\.pypirc|\.dockercfg|\.vault-token|` +
		`\.htpasswd|\.s3cfg|\.boto|\.terraformrc|terraform\.tfvars|\.sentryclirc|kubeconfig|` +
		`credentials(?:\.json|\.toml|\.ya?ml)?|application_default_credentials\.json|secrets\.(?:json|toml|ya?ml)|` +
		`.*\.(?:pem|key|p12|p8|pfx|jks|keystore|kdbx|ppk|tfstate)|` +
		`id_(?:rsa|dsa|ecdsa|ed25519)[^.]*|(?:client_secret|service[-_]?account).*\.json)$`)
	// environmentFile matches files of environment variables and captures what they are for.
	environmentFile      = regexp.MustCompile(`(?s)^(?:\.env[.\-_](.*)|(.*)\.env)$`)
	packageFolders       = []string{"node_modules", "site-packages", "dist-packages", "vendor", "third_party", ".venv", "venv"}
	harmlessEnvironments = []string{"example", "sample", "template", "dist", "test", "tests", "testing", "ci", "defaults", "schema"}
	// backupFile matches a backup copy, which is as secret as the original.
	backupFile = regexp.MustCompile(`(?s)^(.+?)(?:~|\.(?:bak|backup|old|orig|save|copy|swp))+$`)
)

// isHarmless reports whether a folder's name says that it holds tests, fixtures, examples or third-party
// packages. It matches words: "latest" and "docker" contain "test" and "doc" but are not harmless.
func isHarmless(folder string) bool {
	if slices.Contains(packageFolders, folder) {
		return true
	}
	words := strings.FieldsFunc(folder, func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "test") || strings.HasSuffix(word, "tests") || slices.Contains(harmlessWords, strings.TrimSuffix(word, "s"))
	})
}

var harmlessWords = []string{"fixture", "spec", "example", "sample", "mock", "demo", "doc", "documentation"}
