package object

import (
	"context"
	"errors"
	"time"

	"slipway/registry/internal/storage"
)

// urlLife is how long a signed URL works, as with distribution. A client uses it at once;
// a download that has begun may take longer.
const urlLife = 20 * time.Minute

// signTime bounds a signature that costs a request: the client can be served without it.
const signTime = 3 * time.Second

var _ storage.URLSigner = (*Store)(nil)

// Redirects implements storage.URLSigner.
func (s *Store) Redirects() bool {
	signer, ok := s.b.(Signer)
	return ok && signer.Redirects()
}

// SignedURL implements storage.URLSigner. It is tried once: who cannot be redirected is
// served from here.
func (s *Store) SignedURL(ctx context.Context, key, contentType string) (string, error) {
	if err := valid(key); err != nil {
		return "", err
	}
	signer, ok := s.b.(Signer)
	if !ok {
		return "", errors.New("the store cannot sign")
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.timeout, signTime))
	defer cancel()
	url, err := signer.SignedURL(ctx, "GET", s.root+key[1:], urlLife, URLOptions{ContentType: contentType})
	return url, at(key, err)
}
