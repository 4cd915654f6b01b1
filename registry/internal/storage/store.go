// Package storage is the contract between the registry's rules and the place
// where bytes are stored. Both kinds of store, files and objects, honor it: no renames,
// directories or settable dates. Dates are those of the store's clock.
//
// Keys are slash-separated and absolute below the store's root
// ("/docker/registry/v2/…"), and obey ValidKey; a store refuses any other with
// ErrInvalidKey, so no key leaves the root.
//
// Every store passes the suite in storagetest.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// Reasons that callers distinguish. Stores wrap them with the cause.
var (
	ErrNotExist   = errors.New("does not exist")
	ErrConflict   = errors.New("the object was changed concurrently") // a condition does not hold
	ErrInvalidKey = errors.New("invalid storage key")
	// ErrInvalidChange is for programming errors, such as a deletion without Delete, which would put an empty object.
	ErrInvalidChange = errors.New("the change is not one of a put, a renewal and a deletion")
	ErrTooLarge      = errors.New("larger than asked for")
	ErrNoSpace       = errors.New("no space left on the storage")
	ErrReadOnly      = errors.New("the storage is read-only")
	ErrDenied        = errors.New("permission denied on the storage")
	ErrUnavailable   = errors.New("the storage is not available")           // I/O error, vanished mount, unreachable endpoint
	ErrTemporary     = errors.New("the storage is temporarily unavailable") // joins ErrUnavailable if the failure may be transient
	ErrExpired       = errors.New("the request took too long; try again")
	ErrBusy          = errors.New("another process holds it")
	ErrUploadTaken   = errors.New("the upload was taken over by another request")
	ErrUploadDone    = errors.New("the upload is closed")
)

// Store keeps objects under keys. An object is visible in full or not at all. All
// methods are safe for concurrent use, and each is bounded in time by its
// context or by the store itself.
type Store interface {
	// Stat describes the object at key. The error is ErrNotExist if there is none, whatever is
	// below the key. Of an upload in progress at key it gives the size so far. With
	// a slash at the end, key is a prefix: as long as Version stays the same and isn't
	// "", a delimited List yields the same keys. ErrNotExist if the store knows that
	// nothing is below, ErrUnavailable if the store's root is gone.
	Stat(ctx context.Context, key string) (Info, error)

	// Open opens the object for reading from offset on: length bytes, or to the end
	// if length is negative. An offset beyond the end reads nothing. ErrNotExist,
	// also for anything that is not a regular object. The caller closes the object.
	Open(ctx context.Context, key string, offset, length int64) (*Object, error)

	// List yields the objects below prefix, a valid key, in the byte order of the keys,
	// where the key of a listed prefix ends in a slash (so "a-b/" comes before "a/").
	// Nothing below it is an empty sequence. Unfinished writes are left out, and so is
	// every name that is not a valid key. Files list uploads in progress, object stores don't. An error ends the sequence.
	List(ctx context.Context, prefix string, o ListOptions) iter.Seq2[Info, error]

	// Begin begins an attempt. It does no I/O worth mentioning and never fails: if it
	// couldn't prepare something, the Apply that needs it returns the error.
	Begin() *Attempt

	// Apply makes the changes durable and visible: when it returns nil they outlive
	// a power loss, unless they are Ephemeral. All changes of one stage are durable
	// before the first change of the next becomes visible. Of a stage, the first change
	// becomes visible first and the others in any order, each whole or not at all; a stage of
	// unconditional deletions has no order. After an error any prefix of the stages may have
	// taken effect, and some changes of the next.
	//
	// The changes may rely on what Rely has returned for the attempt, and on earlier changes
	// of this call. ErrExpired if the attempt is over, ErrConflict if a condition doesn't
	// hold. The error wraps ErrTemporary if a collection that is deleting what the changes put
	// or renew takes too long.
	//
	// Once begun, it doesn't stop when ctx ends. Concurrent calls may share flushes.
	Apply(ctx context.Context, a *Attempt, stages ...Stage) error

	// OpenUpload creates or resumes the upload at key. Two holders never mix bytes: the
	// store either refuses the second with ErrUploadTaken or makes the first fail with it.
	// ErrConflict if there is an object, or an upload to create; ErrNotExist
	// if there is none to resume.
	OpenUpload(ctx context.Context, key string, o UploadOptions) (Upload, error)

	// Lock takes the lock of that name, a short word, alone or shared. It doesn't wait:
	// ErrBusy, with the holder if the store knows it. Nothing is held forever by
	// a process that has died, and a frozen holder may lose it: locks save work, safety
	// never depends on them. If a store cannot tell which servers use it, LockServers is always granted
	// shared and never alone.
	Lock(ctx context.Context, name string, shared bool) (unlock func(), err error)

	// Collect begins a collection, and first waits until attempts begun long before can
	// change nothing any more: some seconds on files, two minutes on object stores (16 where
	// requests can't be made to expire). While no process makes attempts it waits a few seconds on
	// object stores and not at all on files. It also
	// removes what writers that died have left and no key shows. ErrBusy if another collection
	// is in progress.
	Collect(ctx context.Context) (Collection, error)

	// Close releases the resources of the store. No method may be called afterwards.
	Close() error
}

// Info describes an object, or in a delimited listing a prefix.
type Info struct {
	Key    string // of a prefix with a slash at its end
	Prefix bool
	Size   int64
	// Modified is the time at which the object was completed or last renewed, by the clock of the
	// store and in its granularity, which may be whole seconds.
	Modified time.Time
	// Version changes whenever the content does. It is opaque; two objects of the same
	// content may have the same one, and a renewal may change it or not. It is "" if the
	// store cannot tell yet: such an object cannot be remembered or changed
	// conditionally, and the caller must describe it again.
	Version string
	// MD5 of the content in hex if the store reports it, as listings of most do; otherwise "".
	MD5 string
}

// ListOptions describes what List yields.
type ListOptions struct {
	After string // only keys after this one; "" for all
	// Flat yields all objects below the prefix. Otherwise only the next level is listed:
	// objects directly below, and prefixes for all that lies deeper. Whether a prefix
	// with nothing below it is yielded is left open.
	Flat bool
	// Names says that Size, Modified and Version are not needed; they may be zero.
	Names bool
	// Max bounds the entries that the caller needs; 0 = all. It saves the
	// store work, and changes nothing else.
	Max int
	// Version, if not nil, is set to the version of the prefix that Stat would have given, before
	// an entry is yielded. It stays as it is where the store can't tell.
	Version *string
}

// Object is an open object. If it is a file, the embedded reader leads to it
// (see File), so that the kernel can send it.
type Object struct {
	Info
	io.ReadCloser
}

// Stage is a set of changes that become durable together. No two have one key.
type Stage []Change

// Change is one change of one object: a put of Content or of the bytes of
// Upload, a renewal or a deletion, and a store refuses what is none or several of these. Changes of one key that aren't
// Ephemeral exclude each other, in all processes that keep this contract, so a condition
// holds at the moment of the change.
type Change struct {
	Key string
	// Content is put in place, replacing any object; nil = this is no put. An empty object has []byte{}.
	Content []byte
	// Upload is put in place, replacing any object, and closed. If Apply fails the caller still
	// holds it, unless its bytes are in doubt (a failed flush) or placed already: then
	// its methods return ErrUploadDone, and it has to be sent again.
	Upload Upload
	// Renew makes Modified of the object now. It never creates: ErrNotExist if the object is
	// gone. A renewal need not outlive a power loss.
	Renew bool
	// Delete removes the object, and at the key of an upload the upload and all that the store
	// keeps for it. That it is absent is no error, unless there is a condition on its version.
	Delete bool
	// If is the condition under which the change is made.
	If Condition
	// Ephemeral changes are visible immediately and may be undone by a power loss: notes
	// next to an upload, leftovers of one.
	Ephemeral bool
}

// Upload is a request's exclusive hold on an object that is being received. It is written in
// order; one goroutine at a time uses it. It ends by Suspend, by Cancel or by an
// Apply that puts it in place; after that Suspend and Cancel do nothing.
type Upload interface {
	// Write appends. After an error the upload may hold a part of p; Progress says
	// how much. ErrUploadTaken, ErrUploadDone.
	io.Writer

	// Progress returns the number of bytes that the upload holds, over all requests, and the
	// state that was last given to Suspend, nil unless it belongs to exactly these
	// bytes and they are certain.
	Progress() (size int64, state []byte)

	// Reader reads what the upload holds from offset on. The caller closes it.
	Reader(ctx context.Context, offset int64) (io.ReadCloser, error)

	// Suspend leaves the upload to the next holder, with its first size bytes: all that it
	// holds, or as many as when it was opened, so that a failed request leaves nothing.
	// The bytes outlive this process, not a power loss.
	// state, at most 4 KiB (a running hash), belongs to them and may be lost with the process.
	Suspend(ctx context.Context, size int64, state []byte) error

	// Cancel removes what was written. If the upload was taken over, it removes
	// nothing and returns ErrUploadTaken.
	Cancel(ctx context.Context) error
}

// UploadOptions tells OpenUpload what to do. The zero value resumes.
type UploadOptions struct {
	// Create makes a new upload. Other processes need not see it before it is suspended.
	Create bool
	// Final is the key at which Apply will put the upload, where the digest is known
	// before the body; otherwise "". A store that can't rename may write there directly.
	Final string
	// Size is the number of bytes to come if known, otherwise -1 or 0.
	Size int64
}

// Check returns ErrInvalidKey, or ErrInvalidChange for a change that is not exactly one of a put, a renewal
// and a deletion. Stores call it before they change anything.
func (c *Change) Check() error {
	kinds := 0
	for _, is := range [...]bool{c.Content != nil, c.Upload != nil, c.Renew, c.Delete} {
		if is {
			kinds++
		}
	}
	switch {
	case !ValidKey(c.Key):
		return fmt.Errorf("%q: %w", c.Key, ErrInvalidKey)
	case kinds != 1:
		return fmt.Errorf("%s: %w", c.Key, ErrInvalidChange)
	}
	return nil
}

// URLSigner is implemented by stores that can let a client read an object by itself.
type URLSigner interface {
	// Redirects reports whether SignedURL can succeed. It does no I/O.
	Redirects() bool
	// SignedURL returns a URL that anyone can use to GET the object at key for some minutes. The
	// URL is a secret. The answer has the content type. SignedURL doesn't check that the object
	// exists.
	SignedURL(ctx context.Context, key, contentType string) (string, error)
}

// Condition describes what must be at a key for a change to be made. The zero value
// holds always.
type Condition struct {
	absent  bool
	version string
}

// IfAbsent holds if there is no object.
func IfAbsent() Condition { return Condition{absent: true} }

// IfVersion holds if the object has that version, which is not "".
func IfVersion(version string) Condition { return Condition{version: version} }

// Absent reports whether the condition is IfAbsent.
func (c Condition) Absent() bool { return c.absent }

// Version returns the version that the object must have, or "" for any.
func (c Condition) Version() string { return c.version }

// maxKey leaves room for a root directory below PATH_MAX (4096).
const maxKey = 3072

// ValidKey reports whether p is one or more components, each after a slash, of
// letters, digits, ".", "_" and "-", none of which starts with a dot. So
// nothing climbs out of the root, and names that start with a dot stay free
// for the drivers' own use.
func ValidKey(p string) bool {
	if len(p) < 2 || len(p) > maxKey || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 1; i < len(p); i++ {
		c := p[i]
		if !keyByte[c] || p[i-1] == '/' && (c == '.' || c == '/') {
			return false
		}
	}
	return true
}

// keyByte holds the bytes that may occur; a table, because the check runs
// before each operation.
var keyByte = func() (t [256]bool) {
	for c := range t {
		t[c] = strings.IndexByte("/._-", byte(c)) >= 0 ||
			'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return t
}()
