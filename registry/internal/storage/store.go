// Package storage is the contract between the registry's rules and the place
// where bytes lie. Files and object stores keep it alike: it knows no rename,
// no directory, no modification time that anybody sets and no clock of the store.
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
	"io"
	"iter"
	"time"
)

// Reasons that callers distinguish. Stores wrap them with the cause.
var (
	ErrNotExist    = errors.New("does not exist")
	ErrConflict    = errors.New("the object was changed by somebody else") // a condition does not hold
	ErrInvalidKey  = errors.New("invalid storage key")
	ErrTooLarge    = errors.New("larger than asked for")
	ErrNoSpace     = errors.New("no space left on the storage")
	ErrReadOnly    = errors.New("the storage is read-only")
	ErrDenied      = errors.New("permission denied on the storage")
	ErrUnavailable = errors.New("the storage is not available")    // I/O error, vanished mount, unreachable endpoint
	ErrTemporary   = errors.New("the storage does not answer now") // beside ErrUnavailable, where it may pass by itself
	ErrExpired     = errors.New("the section has ended or passed its deadline")
	ErrUploadTaken = errors.New("the upload was taken over by another request")
	ErrUploadDone  = errors.New("the upload is closed")
)

// Store keeps objects under keys. An object is visible whole or not at all. All
// methods are safe for concurrent use, and each is bounded in time by its
// context or by the store itself.
type Store interface {
	// Stat describes the object at key; ErrNotExist if there is none, whatever lies
	// below the key. Of an upload that is under way at key it gives the size so far,
	// without taking it from its holder.
	Stat(ctx context.Context, key string) (Info, error)

	// Open opens the object for reading from offset on: length bytes, or to the end
	// if length is negative. An offset beyond the end reads nothing. ErrNotExist,
	// also for what is no regular object. The caller closes the object.
	Open(ctx context.Context, key string, offset, length int64) (*Object, error)

	// Apply makes the changes durable and visible: when it returns nil they outlive
	// a power loss, unless they are Ephemeral. All changes of one stage are durable
	// before the first change of the next becomes visible; those of one stage become
	// visible in any order, each whole or not at all. After an error any prefix of
	// the stages may have taken effect, and some of the changes of the next.
	// ErrConflict if a condition does not hold, ErrExpired if the section has passed
	// its deadline; section is nil where the changes rely on nothing that exists.
	//
	// Once begun, it does not stop when ctx ends. Concurrent calls may share flushes.
	Apply(ctx context.Context, section Section, stages ...Stage) error

	// List yields what lies below prefix, a valid key, in the byte order of the keys,
	// where the key of a listed prefix ends in a slash (so "a-b/" comes before "a/").
	// Nothing below it is an empty sequence. Unfinished writes are left out, and so is
	// every name that no valid key has; uploads may be there or not. An error ends the sequence.
	List(ctx context.Context, prefix string, o ListOptions) iter.Seq2[Info, error]

	// Generation is an opaque token of the names directly below prefix: while it
	// stays the same, a delimited List yields the same keys. It is "" where the store
	// cannot know, or cannot know yet.
	Generation(ctx context.Context, prefix string) string

	// CreateUpload begins an upload that will be put to its place by Apply. key names
	// it until then; ErrConflict if there is an object or upload. Other processes may not know
	// of it before it is suspended or has some MiB: who creates it there, too, is fenced then.
	CreateUpload(ctx context.Context, key string, hint UploadHint) (Upload, error)

	// ResumeUpload goes on with the upload at key, behind the last byte that is safe,
	// also after the death of its holder and in another process. The older holder is
	// fenced: from then on it fails with ErrUploadTaken. ErrNotExist.
	ResumeUpload(ctx context.Context, key string) (Upload, error)

	// Check proves that reading works and, if write is true, that a small object can
	// be written, made durable and deleted.
	Check(ctx context.Context, write bool) error

	// Close waits for what is under way. Nothing may be called afterwards.
	Close() error
}

// Cleaner is implemented by stores in which writers that died leave something
// that no key shows: temporary files, parts of uploads.
type Cleaner interface {
	// Clean removes what no living writer needs.
	Clean(ctx context.Context) error
}

// Leaver is implemented by stores in which a writer that died can leave bytes of an upload
// that Stat does not know of.
type Leaver interface {
	// Leftovers describes what there is of the upload at key, dated by the newest of it.
	// ErrNotExist. Deleting the key removes it.
	Leftovers(ctx context.Context, key string) (Info, error)
}

// Continuer is implemented by stores that can go on with an upload without asking for it.
type Continuer interface {
	// ContinueUpload is ResumeUpload for who knows how many bytes the upload has. Where this process
	// remembers it so, the holder in another process is not fenced before the first Write, Reader,
	// Apply or Cancel. These then fail with ErrUploadTaken if that one has added something, and with
	// ErrNotExist if it has ended the upload.
	ContinueUpload(ctx context.Context, key string, size int64) (Upload, error)
}

// Info describes an object, or in a delimited listing a prefix.
type Info struct {
	Key    string // of a prefix with a slash at its end
	Prefix bool
	Size   int64
	// Modified is when the object was completed or last renewed, by the clock of the
	// store and in its granularity, which may be whole seconds.
	Modified time.Time
	// Version changes whenever the content does. It is opaque; two objects of the same
	// content may have the same one, and a renewal may change it or not. "" where the
	// store cannot tell yet: such an object cannot be remembered or changed
	// conditionally, and the caller looks again.
	Version string
	// MD5 of the content in hex, where the store says it, as listings of most do; else "".
	MD5 string
}

// ListOptions says what List yields.
type ListOptions struct {
	After string // only keys behind this one; "" for all
	// Flat yields all objects below the prefix. Else only the next level is listed:
	// objects directly below, and prefixes for all that lies deeper. Whether a prefix
	// with nothing below it is yielded is left open.
	Flat bool
	// Names says that Size, Modified and Version are not needed; they may be zero.
	Names bool
	// Max is how many entries the caller is going to look at; 0 = all there are. It saves the
	// store work, and changes nothing else.
	Max int
}

// Object is an open object. Where it is a file, the embedded reader leads to it
// (see File), so that the kernel can send it.
type Object struct {
	Info
	io.ReadCloser
}

// Stage is a set of changes whose order does not matter. No two have one key.
type Stage []Change

// Change is one change of one object: a put of Content or of the bytes of
// Upload, a renewal or a deletion. Changes of one key exclude each other, in all
// processes that keep this contract, so a condition holds at the moment of the
// change.
type Change struct {
	Key     string
	Content []byte
	// Upload is put in place, over what lies there, and closed. If Apply fails it can be
	// resumed, unless its bytes are in doubt (a failed flush) or placed already: then
	// it is gone and has to be sent again.
	Upload Upload
	// Renew makes Modified of the object now. Content is what the object is known to
	// hold: a store without another way writes it again. ErrNotExist if the object is
	// gone. A renewal need not outlive a power loss. If Content is nil, an object store may
	// bring an object back that is deleted at the same moment.
	Renew bool
	// Delete removes the object. That it is absent is no error, unless there is a
	// condition on its version.
	Delete bool
	// If is the condition under which the change is made.
	If Condition
	// Ephemeral changes are visible at once and may be undone by a power loss: notes
	// beside an upload, leftovers of one. Without a condition they exclude nobody. A last stage
	// of nothing but ephemeral deletions may leave something where the store fails.
	Ephemeral bool
	// Like is the key of an object with the very same Content, or "". A store may let
	// both share their bytes. It changes nothing else.
	Like string
}

// Condition says what must be at a key for a change to be made. The zero value
// asks for nothing.
type Condition struct {
	absent  bool
	version string
}

// IfAbsent asks for no object.
func IfAbsent() Condition { return Condition{absent: true} }

// IfVersion asks for the object of that version, which is not "".
func IfVersion(version string) Condition { return Condition{version: version} }

// Absent says whether no object may be there.
func (c Condition) Absent() bool { return c.absent }

// Version is the version that must be there, "" if any will do.
func (c Condition) Version() string { return c.version }
