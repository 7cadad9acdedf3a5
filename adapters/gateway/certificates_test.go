package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
)

// A renewed certificate takes effect without a restart. If the files are invalid, the last valid pair stays in use, and
// the reason is logged once.
func TestCertificatesAreReadAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		write := func(path, kind string, der []byte) {
			if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		renew := func(serial int64) {
			private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
			if err != nil {
				t.Fatal(err)
			}
			secret, err := x509.MarshalECPrivateKey(private)
			if err != nil {
				t.Fatal(err)
			}
			write(cert, "CERTIFICATE", der)
			write(key, "EC PRIVATE KEY", secret)
		}
		var log strings.Builder
		g := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), Logger: logTo(&log)})
		if _, err := g.Certificates(cert, key); err == nil {
			t.Error("files that are not there are taken")
		}
		renew(1)
		config, err := g.Certificates(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		serial := func() int64 {
			time.Sleep(2 * time.Second)
			pair, err := config.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return pair.Leaf.SerialNumber.Int64()
		}
		if got := serial(); got != 1 {
			t.Errorf("serial %d", got)
		}
		renew(2)
		if got := serial(); got != 2 {
			t.Errorf("renewed: serial %d", got)
		}
		write(key, "EC PRIVATE KEY", []byte("garbage"))
		if first, second := serial(), serial(); first != 2 || second != 2 || strings.Count(log.String(), "invalid TLS files") != 1 {
			t.Errorf("bad: serial %d, then %d; log %s", first, second, log.String())
		}
		renew(3)
		if got := serial(); got != 3 || strings.Count(log.String(), "TLS certificate loaded") != 2 {
			t.Errorf("mended: serial %d; log %s", got, log.String())
		}
	})
}
