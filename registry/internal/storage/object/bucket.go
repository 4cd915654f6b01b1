// Package object keeps the contract of package storage on an object store. What
// differs between the stores is a Bucket: one method per request, nothing else.
// Repeating requests, waiting, lost answers, conditions that a store does not know,
// uploads and checkpoints are done here, once.
//
// The bucket holds the tree of distribution: the key of an object is the key of the
// contract without its leading slash, below the root directory. Names that begin
// with a dot are this package's own and in no listing: checkpoints and parts of
// uploads beside their upload, stamps beside composed objects, and ".slipway/" below the
// root for locks and the lists of collections.
package object

import (
	"context"
	"errors"
	"io"
	"time"

	"slipway/registry/internal/storage"
)

// Bucket sends requests to one bucket (or container) of an object store. Each method
// sends one request, or as many as the store needs for it, once: it does not retry.
// It ends when ctx does. All methods are safe for concurrent use.
//
// Errors wrap storage.ErrNotExist (no such key), storage.ErrConflict (a condition does
// not hold, or another request for that key is in progress), *Trouble for what is worth
// repeating, storage.ErrDenied, storage.ErrNoSpace, and errors.ErrUnsupported where the store
// doesn't know the request; any other is final. The text names what an operator can do,
// never a secret.
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
	// DeleteMany deletes at most Limits().MaxDelete keys, which need not exist, with one
	// request. errors.ErrUnsupported if the store refuses that: it may have deleted some.
	DeleteMany(ctx context.Context, keys []string) error
	// Touch makes Modified of the object of that version now and keeps its content; its metadata may
	// go. It never creates: storage.ErrNotExist or storage.ErrConflict if the object is gone or another.
	Touch(ctx context.Context, key, version string) error
	// List returns one page of the keys that begin with prefix and come after after, in
	// byte order.
	List(ctx context.Context, prefix string, o ListOptions) (Page, error)
	// Compose writes an object that holds the sources one after the other, without
	// moving their bytes through this process if the store can. All sources but the last have
	// at least Limits().MinPart bytes.
	Compose(ctx context.Context, key string, sources []Source, o PutOptions) (version string, err error)
	// AbortOld removes what a Compose that died has left below prefix before a time.
	AbortOld(ctx context.Context, prefix string, before time.Time) error
	// Redirects reports whether SignedURL can succeed. It sends nothing.
	Redirects() bool
	// SignedURL returns a URL by which method (GET or HEAD) on the object works for that
	// long, or for at least half of it. Anyone with the URL can use it: it is a secret.
	SignedURL(ctx context.Context, method, key string, expires time.Duration, o URLOptions) (string, error)
	// Limits describes what the store can do. It sends nothing and does not change.
	Limits() Limits
	// Now is the store's time, within storage.ClockError once it has answered a request.
	Now() time.Time
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
	MD5      string    // of the content in hex if the store reports it, otherwise ""
	Writer   string    // PutOptions.Writer; "" in listings
	Now      time.Time // the store's clock when it answered; zero in listings
}

// Body is the body of a request. It may be read more than once, by requests one
// after the other.
type Body struct {
	Content io.ReaderAt
	Size    int64
	SHA256  string // in hex if known, otherwise ""
}

// PutOptions are the conditions of a write, and its writer.
type PutOptions struct {
	If storage.Condition
	// Writer is kept as metadata "writer", if it is not "". It says afterwards whether a
	// request that got no answer took effect.
	Writer string
	// Expire says that the request must not take effect later than Limits().MaxLate
	// after Sent. Only for small bodies; deletions always expire.
	Expire bool
}

// ListOptions describes what a page has.
type ListOptions struct {
	After     string // only keys after this one
	Delimited bool   // collect the keys after the next slash into prefixes
	Max       int    // entries at most; 0 = as many as the store likes
}

// Page is a part of a listing.
type Page struct {
	Entries []Info
	More    bool // there are keys after the last entry, or after Next
	// Next is the key after which the listing continues, if it is not the key of the last entry.
	Next string
	Now  time.Time // the store's clock when it answered
}

// Source is an object that Compose reads.
type Source struct {
	Key  string
	Size int64
}

// MinPart is the size that is worth an object of its own while an upload is in progress.
const MinPart = 5 << 20

// Limits are the limits of a store.
type Limits struct {
	MinPart int64 // of a Compose source, except the last; MinPart where the store has no bound
	MaxPut  int64 // bytes of one Put
	// MaxParts bounds the sources of a Compose, MaxDelete the keys of a DeleteMany.
	MaxParts, MaxDelete int
	// MaxLate is the time after which a deletion, a Touch, or a Put that expires cannot take
	// effect any more, once it was sent. What it was answered says more: see Trouble.
	MaxLate time.Duration
	// Conditions that the store is known to honor. The probe at start can take them
	// away, it never adds one.
	ConditionalPut, ConditionalDelete bool
	// BlindDelete says that a conditional deletion of nothing is answered as if it had been
	// done.
	BlindDelete bool
	// Versioned says that Touch changes the version of an object. Where it does and deletions
	// are conditional, a collection needs no lists.
	Versioned bool
	// ComposedEarly says that a composed object is dated when its composition began, so
	// that a stamp beside it carries the date.
	ComposedEarly bool
	// NoTouch says that Touch leaves the date as it was.
	NoTouch bool
	// ListsDeleted says that a delimited listing has the prefixes of deleted objects, too.
	ListsDeleted bool
	// GetRight, PutRight and DeleteRight name the rights that an account needs.
	GetRight, PutRight, DeleteRight string
}

// Trouble is a failure that may pass.
type Trouble struct {
	Err    error
	Effect Effect
	After  time.Duration // the store's wish before the next try; 0 = none
}

// Effect describes the possible effect of a failed request.
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

// Error implements error.
func (t *Trouble) Error() string { return t.Err.Error() }

// Unwrap returns the cause, storage.ErrUnavailable and storage.ErrTemporary.
func (t *Trouble) Unwrap() []error {
	return []error{t.Err, storage.ErrUnavailable, storage.ErrTemporary}
}

// Unsent is the error of a request that failed before the one that has an effect was sent.
func Unsent(err error) error {
	if t := (*Trouble)(nil); errors.As(err, &t) {
		return &Trouble{Err: t.Err, Effect: Refused, After: t.After}
	}
	return err
}

// URLOptions are the headers of the store's answer to a signed URL.
type URLOptions struct {
	ContentType string
}
