package api

import (
	"net/http"
	"strconv"
	"time"

	"slipway/relay/internal/account"
)

// user is how a user looks outside: never with a password.
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

func (in *userFields) set(name string, v value) (err error) {
	switch name {
	case "name":
		in.Name, err = v.text(name)
	case "password":
		in.Password, err = v.text(name)
	case "matrix_id":
		in.MatrixID, err = v.text(name)
	case "is_admin":
		in.Admin, err = v.boolean(name)
	case "id", "created_at":
		// what a client read may be sent back
	default:
		return unknownField(name)
	}
	return err
}

func (a *API) listUsers(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	users, err := a.service.Users(r.Context(), v)
	if err != nil {
		return err
	}
	list := make([]user, 0, len(users))
	for _, u := range users {
		list = append(list, showUser(u))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
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
	writeJSON(w, http.StatusCreated, showUser(u))
	return nil
}

func (a *API) getUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	u, err := a.service.User(r.Context(), v, idOf(r))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showUser(u))
	return nil
}

func (a *API) updateUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	var in userFields
	if err := a.readFields(r, in.set); err != nil {
		return err
	}
	u, err := a.service.UpdateUser(r.Context(), v, idOf(r), in.UserInput)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, showUser(u))
	return nil
}

func (a *API) deleteUser(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := a.service.DeleteUser(r.Context(), v, idOf(r)); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, done{true})
	return nil
}
