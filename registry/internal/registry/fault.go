package registry

import (
	"errors"
	"fmt"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/storage"
)

// ErrDamaged is wrapped by the error for a manifest whose bytes don't have its digest, and for a blob that is
// empty and shouldn't be. Such content is never served; a push of the same digest repairs it.
var ErrDamaged = errors.New("the stored content is damaged")

// IsLost reports whether an error means that a repository lacks content or has it damaged. It may come back.
func IsLost(err error) bool { return oci.IsUnknown(err) || errors.Is(err, ErrDamaged) }

// ErrUploadTaken is inside the error of an operation on an upload that a later
// request has taken over.
var ErrUploadTaken = storage.ErrUploadTaken

// Outcomes inside the package.
var (
	errPageFull    = errors.New("the page is full")
	errNotManifest = errors.New("what is stored as a manifest is not a manifest")
)

// Fault turns a failure of the store into what a client may read of it: the kind, without a path. The cause is for
// the log. An upload that was taken over is not a failure of the store: the error is BLOB_UPLOAD_INVALID. Fault returns
// any other error, such as an *oci.Error, unchanged.
func Fault(err error) error {
	var one *oci.Error
	var several oci.Errors
	switch {
	case err == nil, errors.As(err, &one), errors.As(err, &several):
		return err
	case errors.Is(err, errOvertaken), errors.Is(err, storage.ErrExpired), isConflict(err):
		return contended(err)
	case errors.Is(err, ErrUploadTaken):
		return &oci.Error{Code: oci.CodeBlobUploadInvalid, Message: ErrUploadTaken.Error(), Err: err}
	case errors.Is(err, storage.ErrTemporary):
		// A broken connection to the store must not look like one to the client.
		cause := fmt.Errorf("%w, %w: %s", storage.ErrUnavailable, storage.ErrTemporary, err.Error())
		return &oci.Error{Code: oci.CodeUnavailable, Message: storage.ErrTemporary.Error(), RetryAfter: retryStorage, Err: cause}
	case errors.Is(err, storage.ErrReadOnly):
		return &oci.Error{Code: oci.CodeUnavailable, Message: storage.ErrReadOnly.Error(), Err: err}
	case errors.Is(err, storage.ErrUnavailable):
		return &oci.Error{Code: oci.CodeUnknown, Message: "I/O error on the storage; see the log", Err: err}
	}
	for _, kind := range []error{storage.ErrNoSpace, storage.ErrDenied, ErrDamaged, errNotManifest} {
		if errors.Is(err, kind) {
			return &oci.Error{Code: oci.CodeUnknown, Message: kind.Error(), Err: err}
		}
	}
	return err
}

// retryStorage is the Retry-After if the storage doesn't respond.
const retryStorage = 5 * time.Second

func isConflict(err error) bool { return errors.Is(err, storage.ErrConflict) }

func absent(err error) bool { return errors.Is(err, storage.ErrNotExist) }

// unlessAbsent returns err, or nil if err only means that the object doesn't exist.
func unlessAbsent(err error) error {
	if absent(err) {
		return nil
	}
	return err
}

func unsupported(detail string) error { return oci.Explain(oci.CodeUnsupported, detail) }

// writable returns an error if the registry is read-only.
func (r *Registry) writable() error {
	if r.opts.ReadOnly {
		return unsupported("the registry is read-only (storage.maintenance.readonly.enabled)")
	}
	return nil
}
