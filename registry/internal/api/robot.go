package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"slipway/registry/internal/identity/robot"
	"slipway/registry/internal/oci"
)

const maxRobotBody = 64 << 10

// robotRequest is what a robot is made of.
type robotRequest struct {
	Name         string    `json:"name"`
	Repositories []string  `json:"repositories"`
	Allow        []string  `json:"allow"`
	Note         string    `json:"note"`
	Expires      time.Time `json:"expires"`
}

// createdRobot is the one answer that has the secret.
type createdRobot struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (a *API) listRobots(w http.ResponseWriter, r *request) error {
	all, err := a.opts.Robots.List(r.Context())
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string][]robot.Robot{"robots": all})
	if err != nil {
		return err
	}
	return writeBody(w, r, http.StatusOK, contentTypeJSON, body)
}

func (a *API) createRobot(w http.ResponseWriter, r *request) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxRobotBody))
	d.DisallowUnknownFields()
	var q robotRequest
	if err := d.Decode(&q); err != nil {
		return badRequest("not the JSON of a robot: " + err.Error())
	}
	r.last = q.Name
	if err := a.confirm(w, r); err != nil {
		return err
	}
	wanted := robot.Robot{Name: q.Name, Repositories: q.Repositories, Allow: q.Allow, Note: q.Note, Expires: q.Expires}
	if r.grant != nil {
		wanted.CreatedBy = r.grant.Caller.String()
	}
	r.change = wanted.Summary()
	secret, err := a.opts.Robots.Create(r.Context(), wanted)
	switch {
	case errors.Is(err, robot.ErrInvalid):
		return badRequest(err.Error())
	case errors.Is(err, robot.ErrExists):
		return &statusError{http.StatusConflict, oci.NewError(oci.CodeDenied, err.Error())}
	case err != nil:
		return err
	}
	body, err := json.Marshal(createdRobot{robot.UserPrefix + q.Name, secret})
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	return writeBody(w, r, http.StatusCreated, contentTypeJSON, body)
}

func (a *API) revokeRobot(w http.ResponseWriter, r *request) error {
	if err := a.confirm(w, r); err != nil {
		return err
	}
	err := a.opts.Robots.Revoke(r.Context(), r.last)
	if errors.Is(err, robot.ErrUnknown) {
		return &statusError{http.StatusNotFound, oci.NewError(oci.CodeNameUnknown, "there is no such robot")}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
