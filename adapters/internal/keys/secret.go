package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stepfall/stepfall/adapters/internal/store"
)

// prefix begins every secret, so that secret scanners recognize a leaked one.
const prefix = "sf-"

// digest is the form in which the store keeps a secret. Because a secret has 256 random bits, a slow hash would not
// make it harder to guess.
func digest(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// Create adds a new key to the store and returns its secret, which is not stored anywhere. An empty ID is
// replaced by a random one.
func Create(ctx context.Context, s store.Keys, k *store.Key) (secret string, err error) {
	if err := CheckTexts(k, new(store.Key)); err != nil {
		return "", err
	}
	if k.ID == "" {
		k.ID = hex.EncodeToString(random(4))
	} else if there, err := s.ListKeys(ctx, k.ID); err != nil || len(there) > 0 {
		if err == nil {
			err = fmt.Errorf("key %s already exists", k.ID)
		}
		return "", err
	}
	k.Created = time.Now().UTC().Truncate(time.Second)
	return put(ctx, s, k, k.Created)
}

// longestText bounds the name, tenant and note of a key, in bytes.
const longestText = 500

// CheckTexts returns an error for a text of k that the store should not have, under the name that the command gives it.
// What the key had before is accepted: a key older than these limits can still be changed and revoked.
func CheckTexts(k, before *store.Key) error {
	for _, text := range [...]struct{ what, is, was string }{{"KEY", k.ID, before.ID}, {"--tenant", k.Tenant, before.Tenant}, {"--note", k.Note, before.Note}} {
		switch n := len(text.is); {
		case text.is == text.was:
		case n > longestText:
			return fmt.Errorf("%s has %d bytes: want at most %d", text.what, n, longestText)
		case !utf8.ValidString(text.is) || strings.ContainsFunc(text.is, unicode.IsControl):
			return fmt.Errorf("%s %q has invalid UTF-8 or control characters", text.what, text.is)
		}
	}
	return nil
}

func put(ctx context.Context, s store.Keys, k *store.Key, earlierUntil time.Time) (string, error) {
	secret := prefix + base64.RawURLEncoding.EncodeToString(random(32))
	d := digest(secret)
	return secret, s.PutKey(ctx, k, d[:], earlierUntil)
}

// Rotate gives a key a new secret. The previous secret remains valid for the grace period.
func Rotate(ctx context.Context, s store.Keys, id string, grace time.Duration) (secret string, err error) {
	k, err := get(ctx, s, id)
	if err != nil {
		return "", err
	}
	if !k.Revoked.IsZero() {
		return "", fmt.Errorf("key %s is revoked: create another", id)
	}
	return put(ctx, s, k, time.Now().Add(grace))
}

// Revoke revokes a key.
func Revoke(ctx context.Context, s store.Keys, id string) error {
	_, err := Change(ctx, s, id, func(k *store.Key) {
		if k.Revoked.IsZero() {
			k.Revoked = time.Now().UTC().Truncate(time.Second)
		}
	})
	return err
}

// Change changes a key, except its secret, and returns the changed key.
func Change(ctx context.Context, s store.Keys, id string, change func(*store.Key)) (*store.Key, error) {
	k, err := get(ctx, s, id)
	if err != nil {
		return nil, err
	}
	before := *k
	change(k)
	if err := CheckTexts(k, &before); err != nil {
		return nil, err
	}
	return k, s.PutKey(ctx, k, nil, time.Time{})
}

func get(ctx context.Context, s store.Keys, id string) (*store.Key, error) {
	list, err := s.ListKeys(ctx, id)
	if err != nil {
		return nil, err
	}
	if id == "" || len(list) == 0 {
		return nil, fmt.Errorf("key %q: %w", id, store.ErrNotFound)
	}
	return &list[0], nil
}
