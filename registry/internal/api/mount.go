package api

import (
	"errors"
	"net/http"

	"slipway/registry/internal/notify"
	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry/quota"
)

// mountBlob tries a cross-repository mount. That there is no such blob, or that the client may
// not read it, is no error: the client uploads it instead. A quota without room and a store that
// fails are errors, as the upload would fail as well.
func (a *API) mountBlob(w http.ResponseWriter, r *request, mount string) (done bool, err error) {
	d, from, ok := mountSource(mount, r.param("from"))
	if !ok {
		return false, nil
	}
	if err := a.readyToCommit(w, r); err != nil {
		return false, err
	}
	desc, err := a.repository(r).MountBlob(r.Context(), d, from, r.canPull())
	if errors.Is(err, quota.ErrExceeded) {
		return false, err
	}
	switch code(err) {
	case "":
		r.event = "mount"
		target := a.blobTarget(r, desc.Digest, desc.Size)
		target.FromRepository = from
		if err := a.emit(r, notify.Mount, target); err != nil {
			return true, err
		}
		return true, a.answerBlob(w, r, desc.Digest)
	case oci.CodeBlobUnknown, oci.CodeNameUnknown, oci.CodeDenied:
		return false, nil
	default:
		return false, err
	}
}

// mountSource parses the parameters of a mount. ok is false without a valid repository to mount
// from: the client then uploads.
func mountSource(mount, from string) (d oci.Digest, name oci.Name, ok bool) {
	d, err := oci.ParseDigest(mount)
	if err == nil {
		name, err = oci.ParseName(from)
	}
	return d, name, err == nil
}
