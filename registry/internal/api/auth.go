package api

import (
	"net/http"

	"slipway/registry/internal/oci"
)

// action is what a row does, and so what whoever asks must be allowed to do.
type action int

const (
	open  action = iota // nobody is asked
	login               // any valid user
	list                // see the catalog
	pull
	push
	remove
)

// Access is a permission, in the words of the Docker token specification.
type Access struct{ Type, Name, Action string }

// Authorizer decides who may do what.
type Authorizer interface {
	Authorize(r *http.Request, want ...Access) (user string, err error)
}

func (a *API) authorize(w *response, r *request) error {
	if a.opts.Auth == nil || r.row.action == open {
		return nil
	}
	var err error
	r.user, err = a.opts.Auth.Authorize(r.Request, r.access()...)
	if err != nil {
		return &oci.Error{Code: oci.CodeUnauthorized, Err: err}
	}
	return nil
}

func (r *request) access() []Access {
	repository := Access{Type: "repository", Name: string(r.name)}
	switch r.row.action {
	case list:
		return []Access{{"registry", "catalog", "*"}}
	case pull:
		repository.Action = "pull"
		return []Access{repository}
	}
	return nil
}
