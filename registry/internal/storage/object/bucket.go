// Package object keeps the contract of package storage on an object store. What
// differs between the stores is a Bucket: one method per request, nothing else.
// Repeating requests, waiting, lost answers, conditions that a store does not know,
// uploads and checkpoints are done here, once.
//
// On the bucket lies the tree of distribution: the key of an object is the key of the
// contract without its leading slash, below the root directory. Names that begin
// with a dot are this package's own and in no listing: checkpoints and parts of
// uploads beside their upload, locks beside what they lock, and ".slipway/" below the
// root for what processes agree by.
package object

import (
	"context"
	"io"
	"time"

	"slipway/registry/internal/storage"
)

// Bucket sends requests to one bucket (or container) of an object store. Each method
// sends one request, or as many as the store needs for it, once: it does not retry.
// It ends when ctx does. All methods are safe for concurrent use.
//
// Errors wrap storage.ErrNotExist (no such key), storage.ErrConflict (a condition does
// not hold, or another request for that key is under way), *Trouble for what is worth
// repeating, storage.ErrDenied and storage.ErrNoSpace; any other is final. The text
// names what an operator can do, never a secret.
type Bucket interface {
	// Get opens an object from offset on: length bytes, to the end if length is
	// negative. Info describes the whole object. An offset at or beyond the end, and a
	// length of 0, read nothing and are no error.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)

	// Head describes an object.
	Head(ctx context.Context, key string) (Info, error)

	// Put writes an object and returns its version, "" if the answer does not say.
	Put(ctx context.Context, key string, body Body, o PutOptions) (version string, err error)

	// Delete deletes an object. That it is absent is no error without a condition, and
	// storage.ErrNotExist or storage.ErrConflict with one.
	Delete(ctx context.Context, key string, c storage.Condition) error

	// Touch makes Modified of an object now and keeps its content; its metadata may go. storage.ErrNotExist
	// if there is none. An object that is deleted while a store copies it onto itself may come
	// back. Any other final error is that of a store which cannot: it may have done nothing.
	Touch(ctx context.Context, key string) error

	// List returns one page of the keys that begin with prefix and come after after, in
	// byte order.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)

	// Compose writes an object that holds the sources one after the other, without
	// moving their bytes through this process if the store can. All sources but the last have
	// at least Limits().MinPart bytes.
	Compose(ctx context.Context, key string, sources []Source, o PutOptions) (version string, err error)

	// Limits says what the store can do. It sends nothing and does not change.
	Limits() Limits

	// Close ends idle connections.
	Close() error
}

// Info describes an object, or in a delimited listing a common prefix.
type Info struct {
	Key      string
	Prefix   bool // Key ends in a slash, and all else is zero
	Size     int64
	Modified time.Time // by the store's clock
	Version  string    // ETag or generation: what a condition compares
	MD5      string    // of the content in hex, where the store says it, else ""
	Writer   string    // PutOptions.Writer; "" in listings
	Now      time.Time // the store's clock when it answered; zero in listings
}

// Body is what a request sends. It may be read more than once, by requests one
// after the other.
type Body struct {
	Content io.ReaderAt
	Size    int64
	SHA256  string // in hex, where it is known, else ""
}

// PutOptions says under which condition an object is written, and by whom.
type PutOptions struct {
	If storage.Condition
	// Writer is kept as metadata "writer", if it is not "". It says afterwards whether a
	// request that got no answer took effect.
	Writer string
	// Expire says that the request must not take effect later than Limits().MaxLate
	// after Sent. Only for small bodies; deletions always expire.
	Expire bool
}

// ListOptions says what a page has.
type ListOptions struct {
	After     string // only keys behind this one
	Delimited bool   // collect what lies behind the next slash into prefixes
	Max       int    // entries at most; 0 = as many as the store likes
}

// Page is a part of a listing.
type Page struct {
	Entries []Info
	More    bool // behind the last entry, or behind Next
	// Next is what to list after, if it is not the key of the last entry.
	Next string
	Now  time.Time // the store's clock when it answered
}

// Source is an object that Compose reads.
type Source struct {
	Key  string
	Size int64
}

// MinPart is what is worth an object of its own while an upload is under way.
const MinPart = 5 << 20

// Limits is what a store can do.
type Limits struct {
	MinPart int64 // of a Compose source, except the last; MinPart where the store has no bound
	MaxPut  int64 // bytes of one Put
	// MaxParts is how many sources a Compose may have.
	MaxParts int
	// MaxLate is the time after which a deletion, or a Put that expires, cannot take
	// effect any more, once it was sent. What it was answered says more: see Trouble.
	MaxLate time.Duration
	// Conditions that the store is known to honour. The probe at start can take them
	// away, it never adds one.
	ConditionalPut, ConditionalDelete bool
	// BlindDelete says that a conditional deletion of nothing is answered as if it had been
	// done.
	BlindDelete bool
}

// Trouble is a failure that may pass.
type Trouble struct {
	Err    error
	Effect Effect
	After  time.Duration // the store's wish before the next try; 0 = none
}

// Effect is what a request that failed may have done.
type Effect int

const (
	// Lost means that there was no answer: the request took effect, or may yet.
	Lost Effect = iota
	// Doubtful means that there was an answer, which leaves open whether it took effect. It
	// will not any more.
	Doubtful
	// Refused means that it did nothing.
	Refused
)

func (t *Trouble) Error() string { return t.Err.Error() }

// Unwrap returns the cause, storage.ErrUnavailable and storage.ErrTemporary.
func (t *Trouble) Unwrap() []error {
	return []error{t.Err, storage.ErrUnavailable, storage.ErrTemporary}
}

// BatchDeleter is implemented by buckets that delete many keys with one request. The
// keys need not exist.
type BatchDeleter interface {
	// DeleteMany deletes at most MaxDelete keys. errors.ErrUnsupported if the store refuses to by one
	// request: it may have deleted some.
	DeleteMany(ctx context.Context, keys []string) error
	// MaxDelete is how many keys one request may have.
	MaxDelete() int
}

// Signer is implemented by buckets that can give a client a URL to read an object by
// itself.
type Signer interface {
	// Redirects says whether SignedURL can succeed. It sends nothing.
	Redirects() bool
	// SignedURL returns a URL by which method (GET or HEAD) on the object works for that
	// long, or for at least half of it. Whoever knows it can use it: it is a secret.
	SignedURL(ctx context.Context, method, key string, expires time.Duration, o URLOptions) (string, error)
}

// URLOptions is what a signed URL makes the store answer.
type URLOptions struct {
	ContentType string
}

// Multipart is implemented by buckets in which the parts of an object can be written
// before it is whole, at its final key. What is begun and not completed is seen by
// nobody and removed by Abort or, in the end, by Unfinished and Abort.
type Multipart interface {
	Begin(ctx context.Context, key string, o PutOptions) (id string, err error)
	// PutPart writes part number (from 1). Written again, it replaces the part.
	PutPart(ctx context.Context, key, id string, number int, body Body) (tag string, err error)
	// Complete makes the object of the parts, whose tags come in order. A condition that
	// does not hold leaves everything as it is.
	Complete(ctx context.Context, key, id string, tags []string, o PutOptions) (version string, err error)
	// Abort removes the parts. That there are none is no error.
	Abort(ctx context.Context, key, id string) error
	// Unfinished returns what was begun below prefix before a time and not ended.
	Unfinished(ctx context.Context, prefix string, before time.Time) ([]UnfinishedObject, error)
}

// UnfinishedObject is what Begin has left.
type UnfinishedObject struct {
	Key, ID string
	Begun   time.Time
}
