package jail_test

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/jail"
)

func TestLooksSecret(t *testing.T) {
	for name, want := range map[string]bool{
		".env": true, "app/.env": true, ".env.production": true, ".env.example": false, ".env.test": false, "env.go": false,
		"deploy/server.key": true, "testdata/server.key": false, "tests/certs/ca.pem": false, "keys/ca.pem": true,
		".ssh/config": true, "home/.aws/credentials": true, "id_ed25519": true, "id_ed25519.pub": false, "credentials.json": true,
		"service-account-prod.json": true, "secrets.go": false, "src/secrets.py": false, "main.tf": false, "terraform.tfstate": true,
		"tests/.ssh/id_rsa": true, "README.md": false, ".venv/lib/python3.11/site-packages/certifi/cacert.pem": false, "node_modules/x/key.pem": false, "keyboard.go": false,
		// Words that only hold one of tests or documents.
		"docker/.env": true, "latest/.env": true, "contest/server.pem": true, "inspector/.npmrc": true, "special/id_rsa": true, "democracy/.env": true,
		"docs/.env": false, "e2e-tests/.env": false, "FooTests/ca.pem": false, "test_data/x.key": false, "specs/x.pem": false, "sample.d/x.pem": false,
		// Copies, and names with something added.
		".env.bak": true, ".env~": true, ".env.local.old": true, "prod.env": true, ".env-prod": true, "test.env": false, ".envrc": true, "server.key.orig": true, "~": false,
		"id_rsa_deploy": true, "ID_RSA": true, "id_rsa.bak": true, "id_rsa_test.go": false, "id_rsa.md": false, "AuthKey_1.p8": true, "terraform.tfstate.backup": true,
		".cargo/credentials.toml": true, "gcp/application_default_credentials.json": true, "serviceAccount.json": true, "kubeconfig": true, "gcloud/client.py": false,
	} {
		if got := jail.LooksSecret(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
