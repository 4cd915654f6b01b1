package api

import (
	"net/http"

	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// rights is the answer about a repository.
type rights struct {
	Repository oci.Name            `json:"repository"`
	Callers    []auth.CallerRights `json:"callers"`
	More       bool                `json:"more"` // there are callers that the list leaves out
}

func (a *API) rights() []*endpoint {
	if a.opts.Rights == nil {
		return nil
	}
	return []*endpoint{{name: "access", path: "/_slipway/access", rows: []*row{{method: get, action: auth.Ping, handle: a.getRights}}}}
}

// getRights answers all rights in a repository to its administrators, and to other callers their own.
func (a *API) getRights(w http.ResponseWriter, r *request) error {
	name, err := oci.ParseName(r.param("repository"))
	if err != nil {
		return err
	}
	callers, _, more, err := a.opts.Rights.Rights(r.Context(), r.grant, name)
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, rights{name, callers, more})
}
