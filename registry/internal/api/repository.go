package api

import (
	"net/http"

	"slipway/registry/internal/notify"
)

// deleteRepository deletes a whole repository. This is no part of the
// distribution-spec: its path, /v2/<name>/_slipway/repository, is one of those
// that the spec leaves to extensions, because no component of a repository's
// name begins with an underscore.
func (a *API) deleteRepository(w http.ResponseWriter, r *request) error {
	if err := a.readyToDelete(w, r); err != nil {
		return err
	}
	if err := a.deletable(w, r).Delete(r.Context()); err != nil {
		return err
	}
	if err := a.emitDeletion(w, r, notify.Target{}); err != nil {
		return err
	}
	return acceptedEmpty(w)
}
