package web

import (
	"net/http"
	"strings"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

type usersPage struct {
	frame
	Users []account.User
	Me    int64
}

func (web *Web) getUsers(w http.ResponseWriter, v *sessionRequest) error {
	users, err := web.service.Users(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	return web.show(w, http.StatusOK, "users", usersPage{web.frame(v, "users", "Users"), users, v.UserID})
}

// userPage creates or edits a user.
type userPage struct {
	frame
	User account.User
	New  bool
	Me   bool
}

func (web *Web) getNewUser(w http.ResponseWriter, v *sessionRequest) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	return web.show(w, http.StatusOK, "user", userPage{frame: web.frame(v, "users", "New user"), New: true})
}

// userInput reads the form. An empty password keeps the current one.
func userInput(v *sessionRequest) account.UserInput {
	name, matrixID, password, admin := v.PostForm.Get("name"), strings.TrimSpace(v.PostForm.Get("matrix_id")), v.PostForm.Get("password"), v.PostForm.Get("admin") != ""
	in := account.UserInput{Name: &name, MatrixID: &matrixID, Admin: &admin}
	if password != "" {
		in.Password = &password
	}
	return in
}

func (web *Web) postNewUser(w http.ResponseWriter, v *sessionRequest) error {
	in := userInput(v)
	if _, err := web.service.CreateUser(v.ctx(), v.Principal, in); err != nil {
		p := userPage{frame: web.frame(v, "users", "New user"), New: true, User: account.User{Name: *in.Name, MatrixID: *in.MatrixID, Admin: *in.Admin}}
		status, fault := p.fail(w, err)
		if fault != nil {
			return fault
		}
		return web.show(w, status, "user", p)
	}
	return back(w, v, "/ui/users", "created")
}

func (web *Web) getUser(w http.ResponseWriter, v *sessionRequest) error {
	return web.showUser(w, v, nil)
}

func (web *Web) showUser(w http.ResponseWriter, v *sessionRequest, cause error) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	u, err := web.service.User(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	p := userPage{frame: web.frame(v, "users", u.Name), User: u, Me: u.ID == v.UserID}
	status := http.StatusOK
	if cause != nil {
		if status, err = p.fail(w, cause); err != nil {
			return err
		}
		in := userInput(v)
		p.User.Name, p.User.MatrixID, p.User.Admin = *in.Name, *in.MatrixID, *in.Admin
	}
	return web.show(w, status, "user", p)
}

func (web *Web) postUser(w http.ResponseWriter, v *sessionRequest) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	if _, err := web.service.UpdateUser(v.ctx(), v.Principal, idOf(v), userInput(v)); err != nil {
		return web.showUser(w, v, err)
	}
	return back(w, v, "/ui/users", "saved")
}

func (web *Web) getDeleteUser(w http.ResponseWriter, v *sessionRequest) error {
	if err := v.MustAdmin(); err != nil {
		return err
	}
	u, err := web.service.User(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	p := confirmPage{
		frame: web.frame(v, "users", "Delete "+u.Name), Heading: "Delete the user “" + u.Name + "”?",
		Text:   "The user's applications are deleted too: their tokens stop working at once and waiting messages are not delivered.",
		Button: "Delete user", Action: v.URL.Path, Cancel: strings.TrimSuffix(v.URL.Path, "/delete"),
	}
	return web.show(w, http.StatusOK, "confirm", p)
}

func (web *Web) postDeleteUser(w http.ResponseWriter, v *sessionRequest) error {
	if err := web.service.DeleteUser(v.ctx(), v.Principal, idOf(v)); err != nil {
		return err
	}
	return back(w, v, "/ui/users", "deleted")
}

type accountPage struct {
	frame
	User       account.User
	FromConfig bool
	Clients    []account.Client
}

func (web *Web) getAccount(w http.ResponseWriter, v *sessionRequest) error {
	return web.showAccount(w, v, nil)
}

func (web *Web) showAccount(w http.ResponseWriter, v *sessionRequest, cause error) error {
	u, err := web.service.User(v.ctx(), v.Principal, v.UserID)
	if err != nil {
		return err
	}
	p := accountPage{frame: web.frame(v, "account", "Your account"), User: u, FromConfig: strings.EqualFold(u.Name, web.o.AdminName)}
	if p.Clients, err = web.service.Clients(v.ctx(), v.Principal); err != nil {
		return err
	}
	status := http.StatusOK
	if cause != nil {
		if status, err = p.fail(w, cause); err != nil {
			return err
		}
	}
	return web.show(w, status, "account", p)
}

func (web *Web) postAccount(w http.ResponseWriter, v *sessionRequest) error {
	id := strings.TrimSpace(v.PostForm.Get("matrix_id"))
	if _, err := web.service.UpdateUser(v.ctx(), v.Principal, v.UserID, account.UserInput{MatrixID: &id}); err != nil {
		return web.showAccount(w, v, err)
	}
	return back(w, v, "/ui/account", "saved")
}

// postPassword changes the user's own password, which ends all sessions, and begins a new session.
func (web *Web) postPassword(w http.ResponseWriter, v *sessionRequest) error {
	present, password := v.PostForm.Get("present"), v.PostForm.Get("password")
	address := request.Address(v.Request, web.o.TrustedProxies)
	if password != v.PostForm.Get("again") {
		return web.showAccount(w, v, &refusal.Error{Kind: refusal.KindInvalid, Field: "again", Message: "The two new passwords differ."})
	}
	if _, err := web.service.Authenticate(v.ctx(), v.Name, present, address); err != nil {
		if refusal.KindOf(err) == refusal.KindUnauthorized {
			err = &refusal.Error{Kind: refusal.KindInvalid, Field: "present", Message: "The current password is wrong."}
		}
		return web.showAccount(w, v, err)
	}
	if _, err := web.service.UpdateUser(v.ctx(), v.Principal, v.UserID, account.UserInput{Password: &password}); err != nil {
		return web.showAccount(w, v, err)
	}
	session, err := web.service.Login(v.ctx(), v.Name, password, address)
	if err != nil {
		return err
	}
	web.setCookie(w, v.Request, session)
	return back(w, v, "/ui/account", "password")
}
