package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
)

// robotRequest is the body of a request that creates a robot.
type robotRequest struct {
	Name         string   `json:"name"`
	Repositories []string `json:"repositories"`
	Allow        []string `json:"allow"`
	Note         string   `json:"note"`
	Expires      expiry   `json:"expires"`
}

// expiry is a time whose errors don't quote Go's layout.
type expiry struct{ time.Time }

func (e *expiry) UnmarshalJSON(text []byte) error {
	if e.Time.UnmarshalJSON(text) != nil {
		return errors.New("expires: must be a time such as 2027-01-01T00:00:00Z")
	}
	return nil
}

// login is an answer with a secret.
type login struct {
	Username string `json:"username"`
	Password string `json:"password,omitempty"`
}

func (a *API) listRobots(w http.ResponseWriter, r *request) error {
	all, err := a.opts.Robots.List(r.Context())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(x robot.Robot) bool { return !r.administers(&x) })
	all = append([]robot.Robot{}, all...)
	for i := range all {
		all[i].Repositories, all[i].Allow = append([]string{}, all[i].Repositories...), append([]string{}, all[i].Allow...)
	}
	return writeJSON(w, r, http.StatusOK, map[string][]robot.Robot{"robots": all})
}

// administers reports whether the caller administers all repositories in which the robot has rights.
func (r *request) administers(x *robot.Robot) bool {
	return r.grant == nil || r.grant.Administers(x.Repositories)
}

func (a *API) createRobot(w http.ResponseWriter, r *request) error {
	var q robotRequest
	if err := a.decode(w, r, &q); err != nil {
		return err
	}
	r.last = q.Name
	wanted := robot.Robot{Name: q.Name, Repositories: q.Repositories, Allow: q.Allow, Note: q.Note, Expires: q.Expires.Time}
	if r.grant != nil {
		wanted.CreatedBy, wanted.MakerID, wanted.Token = r.grant.Caller.String(), r.grant.Caller.ID, r.grant.PersonalToken()
	}
	r.change = wanted.Summary()
	if !r.administers(&wanted) {
		return oci.Explain(oci.CodeDenied, "a robot can get rights only in repositories that you administer")
	}
	secret, err := a.opts.Robots.Create(r.Context(), wanted)
	switch {
	case errors.Is(err, robot.ErrInvalid):
		return badRequest(err.Error())
	case errors.Is(err, robot.ErrExists):
		return &statusError{http.StatusConflict, oci.Explain(oci.CodeDenied, err.Error())}
	case err != nil:
		return err
	}
	return sendLogin(w, r, http.StatusCreated, robot.UserPrefix+q.Name, secret)
}

func (a *API) revokeRobot(w http.ResponseWriter, r *request) error {
	if _, err := a.managed(w, r); err != nil {
		return err
	}
	err := a.opts.Robots.Revoke(r.Context(), r.last)
	if errors.Is(err, robot.ErrUnknown) {
		return noRobot()
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// rotateRobot gives a robot another secret. The caller then bounds its rights like its maker:
// else a robot of somebody else would lend its rights. A robot rotates only itself and those that it
// made: a robot may not be bounded by a younger one, or by one that it bounds.
func (a *API) rotateRobot(w http.ResponseWriter, r *request) error {
	old, err := a.managed(w, r)
	if err != nil {
		return err
	}
	var by robot.Maker
	if r.grant != nil {
		by = robot.Maker{Name: r.grant.Caller.String(), ID: r.grant.Caller.ID, Token: r.grant.PersonalToken()}
		if r.grant.Caller.Kind == access.Robot && old.Name != r.grant.Caller.Name && old.CreatedBy != by.Name {
			return oci.Explain(oci.CodeDenied, "a robot can rotate itself and the robots that it made")
		}
	}
	secret, err := a.opts.Robots.Rotate(r.Context(), r.last, by)
	if errors.Is(err, robot.ErrUnknown) {
		return noRobot()
	}
	if err != nil {
		return err
	}
	return sendLogin(w, r, http.StatusOK, robot.UserPrefix+r.last, secret)
}

// managed returns the robot of the path, if the caller manages it.
func (a *API) managed(w http.ResponseWriter, r *request) (*robot.Robot, error) {
	if err := a.confirm(w, r); err != nil {
		return nil, err
	}
	managed, err := a.opts.Robots.Read(r.Context(), r.last)
	switch {
	case errors.Is(err, robot.ErrUnknown):
		return nil, noRobot()
	case err != nil:
		return nil, err
	case !r.administers(&managed):
		return nil, oci.Explain(oci.CodeDenied, "the robot has rights in repositories that you do not administer")
	}
	return &managed, nil
}

func noRobot() error {
	return &statusError{http.StatusNotFound, oci.Explain(oci.CodeNameUnknown, "there is no such robot")}
}

// sendLogin is the one answer that has the secret of a robot or user; "" is one that the caller has chosen.
func sendLogin(w http.ResponseWriter, r *request, status int, name, secret string) error {
	w.Header()["Cache-Control"] = []string{"no-store"}
	return writeJSON(w, r, status, login{name, secret})
}
