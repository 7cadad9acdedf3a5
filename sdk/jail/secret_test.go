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
	} {
		if got := jail.LooksSecret(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
