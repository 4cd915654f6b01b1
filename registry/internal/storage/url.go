package storage

import "context"

// URLSigner is implemented by stores that can let a client read an object by itself.
type URLSigner interface {
	// Redirects reports whether SignedURL can succeed. It does no I/O.
	Redirects() bool
	// SignedURL returns a URL by which GET of the object at key works for some minutes, for
	// anyone who has it: it is a secret. The answer has the content type. Whether there
	// is an object is not looked at.
	SignedURL(ctx context.Context, key, contentType string) (string, error)
}
