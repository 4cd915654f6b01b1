// Package driver is the contract between the registry's rules and the place
// where bytes lie. It is made for object stores as well as for files: nothing
// here needs a rename, a modification time or a directory. Where files need
// those, the method names the purpose and the file driver does it.
//
// Paths are slash-separated, absolute below the driver's root ("/docker/registry/v2/…"),
// and obey ValidPath; a driver refuses any other with ErrInvalidPath, so that
// no path leaves the root.
//
// Whether a directory without anything in it exists is left open: files keep
// it, object stores do not.
package driver

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"
)

// Reasons that callers tell apart. Drivers wrap them with the cause.
var (
	ErrNotExist    = errors.New("does not exist")
	ErrInvalidPath = errors.New("invalid storage path")
	ErrTooLarge    = errors.New("larger than asked for")
	ErrNoSpace     = errors.New("no space left on the storage")
	ErrReadOnly    = errors.New("the storage is read-only")
	ErrUnavailable = errors.New("the storage is not available") // vanished mount, I/O error, unreachable endpoint
	ErrUploadTaken = errors.New("the upload was taken over by another request")
	ErrUploadDone  = errors.New("the upload is closed")
)

// Driver stores bytes. Each driver passes the suite in drivertest. All methods
// are safe for concurrent use.
type Driver interface {
	Collectable

	// Name is the driver's key in the configuration ("filesystem").
	Name() string

	// Stat describes the object at path. A prefix that only has objects below
	// it is a directory. ErrNotExist if there is neither.
	Stat(ctx context.Context, path string) (Info, error)

	// Find is Stat of an object that others move between two paths, and says at
	// which of them it is. It looks at the first once more if it is at neither.
	// ErrNotExist.
	Find(ctx context.Context, first, second string) (info Info, at string, err error)

	// ReadFile returns the object at path, at most max bytes of it;
	// ErrTooLarge if it has more.
	ReadFile(ctx context.Context, path string, max int64) ([]byte, error)

	// Open opens the object at path for reading. The caller closes it.
	Open(ctx context.Context, path string) (File, error)

	// List yields the direct children of dir, sorted bytewise by name, those
	// strictly after the name given ("" for all). A missing dir is ErrNotExist.
	// Temporary entries are left out.
	List(ctx context.Context, dir, after string) iter.Seq2[Entry, error]

	// Version is an opaque token. That of an object changes whenever its content
	// does, that of a directory whenever a direct child appears or vanishes, by
	// whoever's hand; so what was read after the token was taken may be kept
	// while the token stays the same. ok is false where the storage cannot tell,
	// or cannot tell yet, and where there is nothing.
	Version(ctx context.Context, path string) (token string, ok bool)

	// Commit makes the changes durable and visible: when it returns nil they
	// outlive a power loss, and so does everything that another Commit of this
	// driver had made visible before this one began, unless that one fails. All
	// changes of one
	// stage are durable before the first change of the next becomes visible;
	// each change is visible whole or not at all. After an error any prefix of
	// the stages may be there, and some of the changes of the next.
	//
	// Commits that run at the same time share their flushes. Once begun, a
	// commit does not stop when ctx ends.
	Commit(ctx context.Context, stages ...Stage) error

	// Remove durably removes the object at path; ErrNotExist if it is absent.
	// See Change.Remove for many at once, or for all below a path.
	Remove(ctx context.Context, path string) error

	// WriteScratch puts a small object at path, over whatever lies there. It is
	// visible whole, at once, and may be gone after a power loss: for notes
	// beside an upload, which nobody was promised. Who has it open while it is
	// discarded may read anything.
	WriteScratch(ctx context.Context, path string, content []byte) error

	// Discard removes the object at path and all below it, in any order. It may
	// be back after a power loss: for what is left of an upload. Absent is no
	// error.
	Discard(ctx context.Context, path string) error

	// CreateUpload begins an object at path, where none may be, that is written
	// in order and may be left and taken up again. Nothing of it is durable
	// before Commit. Nobody relies on seeing the object at path meanwhile.
	CreateUpload(ctx context.Context, path string) (Upload, error)

	// OpenUpload takes up the upload at path, behind its last byte. A writer
	// that still holds the same upload fails from then on with ErrUploadTaken.
	// ErrNotExist if there is none.
	OpenUpload(ctx context.Context, path string) (Upload, error)

	// UploadSize is the number of bytes that the upload at path has, without
	// taking it from its writer. ErrNotExist if there is none.
	UploadSize(ctx context.Context, path string) (int64, error)

	// Check proves that reading works and, if write is true, that a small
	// object can be written, made durable and removed.
	Check(ctx context.Context, write bool) error

	// Sweep removes what writers that crashed have left where nobody sees it. It
	// leaves alone what a writer that lives may still need.
	Sweep(ctx context.Context) error

	// Close waits for what the driver has under way. Nothing may be called
	// afterwards.
	Close() error
}

// Info describes an object or directory.
type Info struct {
	Size    int64
	Dir     bool
	Changed time.Time // last change of the content, zero where the storage has none
	// Moved is when the object came to its path, or later: other things that
	// happen to it may count. Zero where the storage has no such time.
	Moved time.Time
}

// Entry is one child in a listing.
type Entry struct {
	Name string
	Dir  bool
}

// Temporary says whether the entry is a file that some writer has not finished
// ("*.tmp"). A directory is not: "v1.tmp" is a good name for a tag.
func (e Entry) Temporary() bool { return !e.Dir && strings.HasSuffix(e.Name, ".tmp") }

// File is an open object. That of the file driver is an *os.File underneath
// (Unwrap), so that the kernel can send it.
type File interface {
	io.ReadSeekCloser
	io.ReaderAt
	Size() int64
}

// Upload is an object being written. One goroutine at a time uses it.
type Upload interface {
	// Write appends. After an error the upload may hold a part of p; Size tells.
	// ErrUploadTaken, ErrUploadDone.
	io.Writer
	// Size is the number of bytes written so far, over all sessions.
	Size() int64
	// Reader reads what was written so far from offset on. The caller closes it.
	Reader(ctx context.Context, offset int64) (io.ReadCloser, error)
	// Close leaves the upload as it is, to be opened again. After Commit or
	// Cancel it does nothing.
	Close() error
	// Cancel removes what was written. Once the upload was taken over, it
	// removes nothing and answers ErrUploadTaken.
	Cancel(ctx context.Context) error
}

// Stage is a set of changes that may become visible in any order. No two of
// them have the same path.
type Stage []Change

// Change puts one object at Path, over whatever object lies there: Content, or
// the bytes of Upload; or it removes.
//
// A Commit closes the uploads that it is given. If it fails, an upload can be
// opened again, unless its bytes are in doubt (a failed flush) or moved
// already: then it is gone and has to be sent again.
type Change struct {
	Path    string
	Content []byte
	Upload  Upload
	// Like is the path of an object with the very same Content, or "". The
	// driver may let both share their bytes, which makes a link that is one of
	// many cheap. Whether it does, and whether Like is there, changes nothing
	// else.
	Like string
	// Remove takes away the object at Path, or all below it. A tree first stops
	// existing as a whole where the storage can do that. Absent is no error.
	Remove bool
}
