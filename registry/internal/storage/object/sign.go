package object

import (
	"context"
	"time"
)

// urlLife is the time for which a signed URL works, as with distribution. A client uses it at once;
// a download that has begun may take longer.
const urlLife = 20 * time.Minute

// signTime bounds a signature that costs a request: the client can be served without it.
const signTime = 3 * time.Second

// Redirects reports whether SignedURL can succeed. It does no I/O.
func (s *Store) Redirects() bool { return s.b.Redirects() }

// SignedURL returns a URL that anyone can use to GET the object at key for some minutes. The URL
// is a secret. The answer has the content type. It doesn't check that the
// object exists, and is tried once: a client that cannot be redirected is served from here.
func (s *Store) SignedURL(ctx context.Context, key, contentType string) (string, error) {
	if err := valid(key); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, min(s.timeout, signTime))
	defer cancel()
	url, err := s.b.SignedURL(ctx, "GET", s.root+key[1:], urlLife, URLOptions{ContentType: contentType})
	return url, at(key, err)
}
