package storage

import "context"

// URLSigner is implemented by stores that can let a client read an object by itself.
type URLSigner interface {
	// Redirects reports whether SignedURL can succeed. It does no I/O.
	Redirects() bool
	// SignedURL returns a URL that anyone can use to GET the object at key for some minutes. The
	// URL is a secret. The answer has the content type. SignedURL doesn't check that the object
	// exists.
	SignedURL(ctx context.Context, key, contentType string) (string, error)
}
