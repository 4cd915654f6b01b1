package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/shared/duration"
)

// shownApplication is the JSON of an application.
type shownApplication struct {
	account.Application
	Image string `json:"image,omitempty"` // the path of its picture
	Token string `json:"token,omitempty"` // only in the answer that makes one
}

func showApplication(a account.Application) shownApplication {
	out := shownApplication{Application: a}
	if a.ImageName != "" {
		out.Image = fmt.Sprintf("/application/%d/image", a.ID)
	}
	return out
}

// applicationFields are the fields of a body. refresh asks for a new token, as in PushBits.
type applicationFields struct {
	account.ApplicationInput
	refresh bool
}

func (in *applicationFields) set(name string, v request.Value) error {
	if name == "new_name" {
		name = "name"
	}
	known, err := in.Set(name, v)
	switch {
	case known:
		return err
	case name == "refresh_token":
		refresh, err := v.Boolean(name)
		in.refresh = refresh != nil && *refresh
		return err
	case readOnly[name]: // clients may send back what they read
		return nil
	}
	return unknownField(name)
}

// readOnly are the names in the JSON of an application. [account.ApplicationInput] has its settings.
var readOnly = func() map[string]bool {
	names := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[shownApplication]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names[name] = name != "" && name != "-"
	}
	return names
}()

func unknownField(name string) error {
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	return refusal.Invalid(name, fmt.Sprintf("Unknown field %q.", name))
}

// readFields reads the fields of a user's request.
func (a *API) readFields(r *http.Request, f request.Func) error {
	b, err := a.readBody(r)
	if err != nil {
		return err
	}
	defer b.release()
	return request.Each(r.Header.Get("Content-Type"), b.Bytes(), f)
}

func (a *API) listApplications(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	apps, err := a.service.Applications(r.Context(), v)
	return answer(w, shown(apps, showApplication), err)
}

func (a *API) createApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in applicationFields
	if err := a.readFields(r, in.set); err != nil {
		return err
	}
	issued, err := a.service.CreateApplication(r.Context(), v, in.ApplicationInput)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/application/"+strconv.FormatInt(issued.Application.ID, 10))
	request.WriteJSON(w, http.StatusCreated, showIssued(issued))
	return nil
}

// showIssued is the only answer that holds a token.
func showIssued(issued account.IssuedToken) shownApplication {
	out := showApplication(issued.Application)
	out.Token = issued.Token
	return out
}

func (a *API) getApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	app, err := a.service.Application(r.Context(), v, idOf(r))
	return answer(w, showApplication(app), err)
}

func (a *API) updateApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in applicationFields
	if err := a.readFields(r, in.set); err != nil {
		return err
	}
	app, err := a.service.UpdateApplication(r.Context(), v, idOf(r), in.ApplicationInput)
	if err != nil {
		return err
	}
	out := showApplication(app)
	if in.refresh {
		issued, err := a.service.RegenerateToken(r.Context(), v, idOf(r), a.service.DefaultGrace())
		if err != nil {
			return err
		}
		out = showIssued(issued)
	}
	return answer(w, out, nil)
}

func (a *API) deleteApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.DeleteApplication(r.Context(), v, idOf(r)))
}

// done is the answer without content. Tools for PushBits expect 200 with an object.
type done struct {
	Success bool `json:"success"`
}

// regenerateToken takes grace, how long the present token remains valid.
func (a *API) regenerateToken(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	grace := r.URL.Query().Get("grace")
	err := a.readFields(r, func(name string, v request.Value) error {
		if name != "grace" {
			return unknownField(name)
		}
		text, err := v.Text(name)
		if text != nil {
			grace = *text
		}
		return err
	})
	if err != nil {
		return err
	}
	d := a.service.DefaultGrace()
	if grace != "" {
		if d, err = duration.Parse(grace); err != nil {
			return refusal.Invalid("grace", "The grace period must be a duration such as 24h or 7d.")
		}
	}
	issued, err := a.service.RegenerateToken(r.Context(), v, idOf(r), d)
	return answer(w, showIssued(issued), err)
}
