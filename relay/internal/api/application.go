package api

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/account"
)

// application is how an application looks outside.
type application struct {
	ID                  int64              `json:"id"`
	Name                string             `json:"name"`
	RoomID              string             `json:"room_id"`
	ResolvedRoomID      string             `json:"resolved_room_id"`
	RoomProblem         *string            `json:"room_problem"`
	RoomName            string             `json:"room_name"`
	RoomNotifies        bool               `json:"room_notifies"`
	RoomCheckedAt       *time.Time         `json:"room_checked_at"`
	RoomByAdmin         bool               `json:"room_by_admin"`
	OwnerAbsent         bool               `json:"owner_absent"`
	Mention             string             `json:"mention"`
	DefaultPriority     int                `json:"default_priority"`
	PriorityScale       account.Scale      `json:"priority_scale"`
	StrictCompatibility bool               `json:"strict_compatibility"`
	RateLimit           int                `json:"rate_limit"`
	Description         string             `json:"description"`
	DefaultFormat       account.Format     `json:"default_format"`
	ShowSender          account.ShowSender `json:"show_sender"`
	Image               *string            `json:"image"`
	OwnerID             int64              `json:"owner_id"`
	Owner               string             `json:"owner"`
	CreatedAt           time.Time          `json:"created_at"`
	TokenCreatedAt      time.Time          `json:"token_created_at"`
	OldTokenUntil       *time.Time         `json:"old_token_until"`
	LastUsed            *time.Time         `json:"last_used"`
	Accepted            int64              `json:"accepted"`
	Sent                int64              `json:"sent"`
	Dead                int64              `json:"dead"`
	Token               string             `json:"token,omitempty"`
}

func showApplication(a account.Application) application {
	out := application{
		ID: a.ID, Name: a.Name, RoomID: a.Room, ResolvedRoomID: a.RoomID, RoomProblem: textOrNull(a.RoomProblem),
		RoomName: a.RoomName, RoomNotifies: a.RoomNotifies, RoomCheckedAt: timeOrNull(a.RoomCheckedAt), RoomByAdmin: a.RoomByAdmin, OwnerAbsent: a.OwnerAbsent, Mention: a.Mention,
		DefaultPriority: a.DefaultPriority, PriorityScale: a.PriorityScale,
		StrictCompatibility: a.StrictCompatibility, RateLimit: a.RateLimit, Description: a.Description, DefaultFormat: a.DefaultFormat, ShowSender: a.ShowSender, OwnerID: a.OwnerID, Owner: a.OwnerName,
		CreatedAt: a.CreatedAt.UTC(), TokenCreatedAt: a.TokenCreatedAt.UTC(), OldTokenUntil: timeOrNull(a.OldTokenUntil),
		LastUsed: timeOrNull(a.LastUsed), Accepted: a.Accepted, Sent: a.Sent, Dead: a.Dead,
	}
	if out.RoomID == "" {
		out.RoomID = a.RoomID
	}
	if a.HasImage {
		path := fmt.Sprintf("/application/%d/image", a.ID)
		out.Image = &path
	}
	return out
}

// applicationFields are what a body may set; refresh is PushBits' way to ask
// for a new token.
type applicationFields struct {
	account.ApplicationInput
	refresh bool
}

func (in *applicationFields) set(name string, v value) (err error) {
	switch name {
	case "name", "new_name":
		in.Name, err = v.text(name)
	case "room_id":
		in.Room, err = v.text(name)
	case "owner_id":
		in.OwnerID, err = v.id(name)
	case "default_priority":
		in.DefaultPriority, err = v.integer(name)
	case "priority_scale":
		in.PriorityScale, err = choiceOf[account.Scale](name, v)
	case "default_format":
		in.DefaultFormat, err = choiceOf[account.Format](name, v)
	case "show_sender":
		in.ShowSender, err = choiceOf[account.ShowSender](name, v)
	case "mention":
		in.Mention, err = v.text(name)
	case "description":
		in.Description, err = v.text(name)
	case "strict_compatibility":
		in.StrictCompatibility, err = v.boolean(name)
	case "rate_limit":
		in.RateLimit, err = v.integer(name)
	case "refresh_token":
		var refresh *bool
		refresh, err = v.boolean(name)
		in.refresh = refresh != nil && *refresh
	case "id", "token", "resolved_room_id", "room_problem", "room_name", "room_notifies", "room_checked_at", "room_by_admin", "owner_absent", "owner", "created_at", "token_created_at", "old_token_until", "last_used", "accepted", "sent", "dead", "image":
		// what a client read may be sent back
	default:
		return unknownField(name)
	}
	return err
}

// choiceOf reads a word out of a set that the rules know.
func choiceOf[T ~string](name string, v value) (*T, error) {
	text, err := v.text(name)
	if text == nil {
		return nil, err
	}
	choice := T(*text)
	return &choice, err
}

func unknownField(name string) error {
	if len(name) > 60 {
		name = name[:60] + "…"
	}
	return invalid(name, "Unknown field %q.", name)
}

// readFields reads a body of management, which is small.
func (a *API) readFields(r *http.Request, f fieldFunc) error {
	body, err := a.readBody(r)
	if err != nil {
		return err
	}
	defer body.release()
	return eachOf(r, body.bytes, f)
}

func (a *API) listApplications(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	apps, err := a.service.Applications(r.Context(), v)
	if err != nil {
		return err
	}
	list := make([]application, 0, len(apps))
	for _, app := range apps {
		list = append(list, showApplication(app))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
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
	writeJSON(w, http.StatusCreated, showIssued(issued))
	return nil
}

// showIssued is the only answer that holds a token.
func showIssued(issued account.IssuedToken) application {
	out := showApplication(issued.Application)
	out.Token = issued.Token
	return out
}

func (a *API) getApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	app, err := a.service.Application(r.Context(), v, idOf(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showApplication(app))
	return nil
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
		issued, err := a.service.RegenerateToken(r.Context(), v, idOf(r), 0)
		if err != nil {
			return err
		}
		out = showIssued(issued)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (a *API) deleteApplication(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := a.service.DeleteApplication(r.Context(), v, idOf(r)); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, done{true})
	return nil
}

// done is the answer without content. PushBits' tools expect a 200 with an object.
type done struct {
	Success bool `json:"success"`
}

// regenerateToken takes grace, the time for which the present token stays valid.
func (a *API) regenerateToken(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	grace := r.URL.Query().Get("grace")
	err := a.readFields(r, func(name string, v value) error {
		if name != "grace" {
			return unknownField(name)
		}
		return setText(&grace, name, v)
	})
	if err != nil {
		return err
	}
	var d time.Duration
	if grace != "" {
		if d, err = time.ParseDuration(grace); err != nil {
			return invalid("grace", "The grace period must be a duration such as 24h.")
		}
	}
	issued, err := a.service.RegenerateToken(r.Context(), v, idOf(r), d)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showIssued(issued))
	return nil
}
