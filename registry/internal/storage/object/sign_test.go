package object

import (
	"context"
	"errors"
	"testing"
	"time"

	"slipway/registry/internal/storage"
)

// signer is a bucket that describes what it was asked to sign.
type signer struct {
	Bucket
	may  bool
	hang bool
}

func (s signer) Redirects() bool { return s.may }

func (s signer) SignedURL(ctx context.Context, method, key string, expires time.Duration, o URLOptions) (string, error) {
	if s.hang {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return method + " " + key + " " + expires.String() + " " + o.ContentType, nil
}

func TestSignedURL(t *testing.T) {
	s := New(NewClient(signer{may: true}, "some/root", Limits{}, Timing{}), Options{})
	if got, err := s.SignedURL(t.Context(), "/a/b", "x/y"); err != nil || got != "GET some/root/a/b 20m0s x/y" || !s.Redirects() {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := s.SignedURL(t.Context(), "/a/../b", ""); !errors.Is(err, storage.ErrInvalidKey) {
		t.Errorf("%q, %v", got, err)
	}
	if New(NewClient(signer{}, "", Limits{}, Timing{}), Options{}).Redirects() {
		t.Error("a bucket that may not sign redirects")
	}
	s = New(NewClient(signer{may: true, hang: true}, "", Limits{}, Timing{Request: time.Millisecond}), Options{})
	if _, err := s.SignedURL(t.Context(), "/a", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a signer that hangs: %v", err)
	}
}
