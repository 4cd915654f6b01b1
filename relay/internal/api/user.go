package api

import (
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/request"
)

// user is the JSON of a user.
type user struct {
	ID        int64     `json:"id"`
	Name      string    `json:"name"`
	MatrixID  string    `json:"matrix_id"`
	IsAdmin   bool      `json:"is_admin"`
	CreatedAt time.Time `json:"created_at"`
}

func showUser(u account.User) user {
	return user{ID: u.ID, Name: u.Name, MatrixID: u.MatrixID, IsAdmin: u.Admin, CreatedAt: u.CreatedAt.UTC()}
}

type userFields struct{ account.UserInput }

func (in *userFields) set(name string, v request.Value) (err error) {
	switch name {
	case "name":
		in.Name, err = v.Text(name)
	case "password":
		in.Password, err = v.Text(name)
	case "matrix_id":
		in.MatrixID, err = v.Text(name)
	case "is_admin":
		in.Admin, err = v.Boolean(name)
	case "id", "created_at":
		// ignored, so that clients may send back what they read
	default:
		return unknownField(name)
	}
	return err
}

func (a *API) listUsers(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	users, err := a.service.Users(r.Context(), v)
	return answer(w, shown(users, showUser), err)
}

func (a *API) createUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in userFields
	if err := a.readFields(r, in.set); err != nil {
		return err
	}
	u, err := a.service.CreateUser(r.Context(), v, in.UserInput)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/user/"+strconv.FormatInt(u.ID, 10))
	request.WriteJSON(w, http.StatusCreated, showUser(u))
	return nil
}

func (a *API) getUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	u, err := a.service.User(r.Context(), v, idOf(r))
	return answer(w, showUser(u), err)
}

func (a *API) updateUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in userFields
	if err := a.readFields(r, in.set); err != nil {
		return err
	}
	u, err := a.service.UpdateUser(r.Context(), v, idOf(r), in.UserInput)
	return answer(w, showUser(u), err)
}

func (a *API) deleteUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.DeleteUser(r.Context(), v, idOf(r)))
}
