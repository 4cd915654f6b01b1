package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/gorilla/mux"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	ui "slipway/shared/web"
)

const usersPath = "/_slipway/users"

type userRow struct {
	auth.Account
	Path string // of the user's forms; "" for a name that only the command line changes
	Self bool   // the visitor
}

type usersPage struct {
	frame
	Users    []userRow
	ReadOnly string // why the file can't be changed, "" if it can
	Host     string
	New      string // the name in the form

	Made struct{ Username, Password string } // of a user who was just added or whose password was reset; it is shown once
}

// managesUsers reports whether the visitor may manage the users of the password file.
func (web *Web) managesUsers(v *visit) bool {
	return web.o.Users != nil && web.o.Users.Managed() && v.csrf != "" && v.grant != nil && web.administers(v)
}

func (web *Web) getUsers(w http.ResponseWriter, v *visit) error { return web.showUsers(w, v, nil, nil) }

func (web *Web) postUsers(w http.ResponseWriter, v *visit) error {
	answer, err := web.actJSON(v, http.MethodPost, usersPath, map[string]string{"name": strings.TrimSpace(v.PostForm.Get("name"))})
	return web.showUsers(w, v, answer, err)
}

// showUsers shows the users, with the password of one of them that an answer has, or with what went wrong.
func (web *Web) showUsers(w http.ResponseWriter, v *visit, answer []byte, failed error) error {
	if !web.managesUsers(v) {
		return errNoPage
	}
	p := usersPage{frame: web.frame(v, "users", "Users"), Host: web.host(v.Request), ReadOnly: ui.Sentence(web.o.Users.ReadOnly())}
	all, err := web.o.Users.List()
	if err != nil {
		return err
	}
	for _, u := range all {
		row := userRow{Account: u, Self: v.grant.Caller.Kind == access.User && v.grant.Caller.Name == u.Name}
		if !strings.Contains(u.Name, "/") {
			row.Path = web.base + "/users/" + url.PathEscape(u.Name)
		}
		p.Users = append(p.Users, row)
	}
	if failed != nil {
		p.New = v.PostForm.Get("name")
		return web.again(w, "users", &p, &p.frame, failed)
	}
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &p.Made); err != nil {
			return err
		}
	}
	return web.pages.Show(w, http.StatusOK, "users", p)
}

// userAct holds the request of a button beside a user.
type userAct struct {
	method, path  string // below the user's
	body          any
	done          string // the notice; "" for the page with the answer
	heading, text string // of the question; no heading asks nothing
	button        string
}

var userActs = map[string]userAct{
	"reset":   {http.MethodPost, "/password", nil, "", "Reset the password of", "The present password stops working at once, and sessions and personal access tokens end. The new one is shown once.", "Reset the password"},
	"disable": {http.MethodPatch, "", map[string]bool{"disabled": true}, "changed", "Disable", "Sessions of the user end. Password, personal access tokens and robots are refused until the user is enabled again.", "Disable"},
	"enable":  {http.MethodPatch, "", map[string]bool{"disabled": false}, "changed", "", "", ""},
	"delete":  {http.MethodDelete, "", nil, "deleted", "Delete the user", "Sessions, personal access tokens and robots of the user end for good. What the user has pushed stays.", "Delete"},
}

func (web *Web) postUser(w http.ResponseWriter, v *visit) error {
	name, act := mux.Vars(v.Request)["user"], userActs[mux.Vars(v.Request)["act"]]
	if act.heading != "" {
		sure, err := web.confirmed(w, v, confirmPage{frame: web.frame(v, "users", act.button), Heading: act.heading + " " + name + "?", Text: act.text, Button: act.button, Cancel: web.base + "/users"})
		if !sure {
			return err
		}
	}
	answer, err := web.actJSON(v, act.method, usersPath+"/"+url.PathEscape(name)+act.path, act.body)
	if err != nil || act.done == "" {
		return web.showUsers(w, v, answer, err)
	}
	return web.back(w, v, "/users", act.done)
}

// postPassword changes the visitor's password, and begins a session with the new one: the others have ended.
func (web *Web) postPassword(w http.ResponseWriter, v *visit) error {
	p, err := web.accountPage(v)
	if err != nil {
		return err
	}
	next := v.PostForm.Get("new")
	if next == v.PostForm.Get("repeated") {
		_, err = web.actJSON(v, http.MethodPut, "/_slipway/account/password", map[string]string{"present": v.PostForm.Get("present"), "new": next})
	} else {
		err = &refusal{http.StatusBadRequest, "The new passwords differ."}
	}
	if err != nil {
		return web.again(w, "account", &p, &p.frame, err)
	}
	who, err := web.o.Auth.LogIn(v.Request, v.grant.Caller.Name, next)
	if err == nil {
		err = web.keep(w, v.Request, newSession(who))
	}
	if err != nil {
		return err
	}
	return web.back(w, v, "/account", "password")
}
