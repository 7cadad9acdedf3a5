package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

// BoringSSL, and so gRPC in Python, C++ and Ruby, rejects certificates on other curves.
func TestCertificateIsForEveryTLSLibrary(t *testing.T) {
	config, text, err := NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, _ := certificate.PublicKey.(*ecdsa.PublicKey); key == nil || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T, want one on P-256", certificate.PublicKey)
	}
	if certificate.IsCA {
		t.Error("it is an authority, which rustls accepts as no client's")
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: pool, DNSName: config.ServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}
