package api

import (
	"errors"
	"fmt"
	"net/http"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/oci"
)

// usersPath is the path at which users of the password file are managed.
const usersPath = "/_slipway/users"

// Bodies of requests that create a user, change one, and change the caller's own password.
type (
	userRequest struct {
		Name     string `json:"name"`
		Password string `json:"password"`
	}
	userChange struct {
		Disabled *bool `json:"disabled"`
	}
	passwordChange struct {
		Present string `json:"present"`
		New     string `json:"new"`
	}
)

func (a *API) users() []*endpoint {
	if a.opts.Users == nil {
		return nil
	}
	return []*endpoint{
		{name: "users", path: usersPath, rows: []*row{
			{method: get, action: auth.Administer, only: a.managesUsers, handle: a.listUsers},
			{method: post, action: auth.Administer, only: a.managesUsers, handle: a.once(a.createUser), event: "user created"},
		}},
		{name: "users", path: usersPath + "/{user:[^/]+}", last: "user", rows: []*row{
			{method: patch, action: auth.Administer, only: a.managesUsers, handle: a.changeUser, event: "user changed"},
			{method: del, action: auth.Administer, only: a.managesUsers, handle: a.deleteUser, event: "user deleted"},
		}},
		{name: "users", path: usersPath + "/{user:[^/]+}/password", last: "user", rows: []*row{
			{method: post, action: auth.Administer, only: a.managesUsers, handle: a.once(a.resetUser), event: "password reset"},
		}},
		{name: "users", path: "/_slipway/account/password", rows: []*row{
			{method: put, action: auth.Ping, handle: a.changePassword, event: "password changed"},
		}},
	}
}

// managesUsers returns why the caller may not manage users, nil if they may. A robot or a personal access token may not: its rights
// are bounded, and can be revoked, and those of a user that it made, or whose password it reset, would not be. A personal access token may still list users.
func (a *API) managesUsers(r *request) error {
	if !a.opts.Users.Managed() {
		return oci.Explain(oci.CodeDenied, "without access rules no user is an administrator of the others: name one under access")
	}
	if err := r.administrator(); err != nil {
		return err
	}
	switch {
	case r.grant == nil:
	case r.grant.Caller.Kind == access.Robot, r.grant.Caller.Kind == access.Workload:
		return oci.Explain(oci.CodeDenied, "robots and pipelines cannot manage users")
	case r.grant.PersonalToken() != "" && r.Method != http.MethodGet:
		return oci.Explain(oci.CodeDenied, "a personal access token cannot manage users: use the password, or log in to the pages")
	}
	return nil
}

func (a *API) listUsers(w http.ResponseWriter, r *request) error {
	all, err := a.opts.Users.List()
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, struct {
		Users    []auth.Account `json:"users"`
		ReadOnly string         `json:"read_only,omitempty"`
	}{all, a.opts.Users.ReadOnly()})
}

func (a *API) createUser(w http.ResponseWriter, r *request) error {
	var q userRequest
	if err := a.decode(w, r, &q); err != nil {
		return err
	}
	r.last = q.Name
	secret, err := a.opts.Users.Create(r.Context(), q.Name, q.Password)
	if err != nil {
		return userError(err)
	}
	return sendLogin(w, r, http.StatusCreated, q.Name, secret)
}

func (a *API) changeUser(w http.ResponseWriter, r *request) error {
	var q userChange
	if err := a.decode(w, r, &q); err != nil {
		return err
	}
	if q.Disabled == nil {
		return badRequest("disabled must be true or false")
	}
	if r.change = "enabled"; *q.Disabled {
		r.change = "disabled"
	}
	return done(w, a.opts.Users.SetDisabled(r.Context(), r.last, *q.Disabled))
}

func (a *API) deleteUser(w http.ResponseWriter, r *request) error {
	return done(w, a.opts.Users.Delete(r.Context(), r.last))
}

func (a *API) resetUser(w http.ResponseWriter, r *request) error {
	secret, err := a.opts.Users.Reset(r.Context(), r.last)
	if err != nil {
		return userError(err)
	}
	return sendLogin(w, r, http.StatusOK, r.last, secret)
}

// changePassword changes the caller's own password.
func (a *API) changePassword(w http.ResponseWriter, r *request) error {
	var q passwordChange
	if err := a.decode(w, r, &q); err != nil {
		return err
	}
	if r.grant == nil || r.grant.Caller.Kind != access.User {
		return oci.Explain(oci.CodeDenied, "only users of the password file have a password here")
	}
	r.last = r.grant.Caller.Name
	err := a.opts.Users.ChangePassword(r.Request, r.last, q.Present, q.New)
	if refused := (*auth.Refusal)(nil); errors.As(err, &refused) && refused.RetryAfter == 0 {
		refused.Err = oci.Explain(oci.CodeDenied, "the present password is wrong")
		return r.refused(w, refused)
	}
	return done(w, err)
}

// done answers a change that has no other answer.
func done(w http.ResponseWriter, err error) error {
	if err != nil {
		return userError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// userError is the error of a change of a user for the client.
func userError(err error) error {
	switch {
	case errors.Is(err, auth.ErrInvalid):
		return badRequest(err.Error())
	case errors.Is(err, auth.ErrNoUser):
		return &statusError{http.StatusNotFound, oci.Explain(oci.CodeNameUnknown, err.Error())}
	case errors.Is(err, auth.ErrUserExists), errors.Is(err, auth.ErrLastAdministrator), errors.Is(err, auth.ErrReadOnly):
		return &statusError{http.StatusConflict, oci.Explain(oci.CodeDenied, err.Error())}
	case errors.Is(err, auth.ErrFileBusy):
		return fmt.Errorf("%w: %w", oci.Explain(oci.CodeUnavailable, err.Error()), err)
	}
	return err
}
