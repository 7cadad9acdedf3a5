package redact_test

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/redact"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:s3cret@db.example/fleet":               "postgres://u:xxxxx@db.example/fleet",
		"open postgres://u:p@ss#?w@db:5432/fleet: no file":   "open postgres://u:xxxxx@db:5432/fleet: no file",
		"postgres://db/fleet?user=u&password=s3cret&sslmode": "postgres://db/fleet?user=u&password=xxxxx&sslmode",
		"postgres://:s3cret@db/a and redis://x:y@z":          "postgres://:xxxxx@db/a and redis://x:xxxxx@z",
		"postgres://u@db:5432/fleet":                         "postgres://u@db:5432/fleet",
		"http://localhost:8080/v1/@cf/model":                 "http://localhost:8080/v1/@cf/model",
		"/var/lib/a:b@c.db":                                  "/var/lib/a:b@c.db",
	} {
		if got := redact.Addresses(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
