package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/identity/personal"
	ui "slipway/shared/web"
)

const tokensPath = "/_slipway/tokens"

type accountPage struct {
	frame
	Groups    []string
	NoGroups  bool   // although rules are for groups
	Unsure    bool   // the identity provider may know more groups
	LoginName string // for docker login
	Host      string
	CanMake   bool // personal access tokens
	Tokens    []ownedRow
	Scopes    []tokenScope
	Secret    string // of a token that was just made; it is shown once
	Note      string // what the form holds
	Days      string

	HasPassword bool   // the visitor is a user of the password file
	ReadOnly    string // why the file can't be changed, "" if it can
	CanChange   bool   // the password
}

// tokenScope is a choice of what a token is for.
type tokenScope struct {
	Value, Text string
	Allow       []string
}

var tokenScopes = []tokenScope{
	{"pull", "Pull", []string{"pull", "list"}},
	{"push", "Pull and push", []string{"pull", "list", "push", "tag-move"}},
	{"all", "All that you may do", nil},
}

// errNotIn is the error of a page for users only.
var errNotIn = &refusal{http.StatusNotFound, "Log in to see your account."}

func (web *Web) accountPage(v *visit) (p accountPage, err error) {
	p = accountPage{frame: web.frame(v, "account", "Your account"), Host: web.host(v.Request), Scopes: tokenScopes, Days: "90"}
	if p.Name == "" {
		return p, errNotIn
	}
	caller := v.grant.Caller
	p.Groups, p.Unsure, p.LoginName = caller.Groups, caller.MoreGroups, auth.LoginName(&caller)
	p.NoGroups = web.o.Auth.LacksGroups(&caller)
	if p.HasPassword = web.o.Users != nil && caller.Kind == access.User; p.HasPassword {
		p.ReadOnly = ui.Sentence(web.o.Users.ReadOnly())
		p.CanChange = p.ReadOnly == ""
	}
	tokens := web.o.Auth.People()
	if p.CanMake = tokens != nil; !p.CanMake {
		return p, nil
	}
	all, err := tokens.List(v.Context(), caller.String())
	for _, token := range all {
		p.Tokens = append(p.Tokens, newOwnedRow(tokens, personal.Owned{Token: token}))
	}
	return p, err
}

func (web *Web) getAccount(w http.ResponseWriter, v *visit) error {
	p, err := web.accountPage(v)
	if err != nil {
		return err
	}
	return web.pages.Show(w, http.StatusOK, "account", p)
}

func (web *Web) postToken(w http.ResponseWriter, v *visit) error {
	p, err := web.accountPage(v)
	if err != nil {
		return err
	}
	if !p.CanMake {
		return errNoPage
	}
	p.Note, p.Days = v.PostForm.Get("note"), v.PostForm.Get("days")
	days, _ := strconv.Atoi(p.Days)
	allow := tokenScopes[0].Allow
	for _, s := range tokenScopes {
		if s.Value == v.PostForm.Get("scope") {
			allow = s.Allow
		}
	}
	wanted := map[string]any{"note": p.Note, "allow": allow, "expires": time.Now().AddDate(0, 0, min(days, 10_000)).UTC().Truncate(time.Second)}
	answer, err := web.actJSON(v, http.MethodPost, tokensPath, wanted)
	if err != nil {
		return web.again(w, "account", &p, &p.frame, err)
	}
	if p, err = web.accountPage(v); err != nil {
		return err
	}
	var made struct{ Password string }
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	p.Secret = made.Password
	return web.pages.Show(w, http.StatusOK, "account", p)
}

func (web *Web) postRevokeToken(w http.ResponseWriter, v *visit) error {
	p, err := web.accountPage(v)
	if err != nil {
		return err
	}
	if !p.CanMake {
		return errNoPage
	}
	id := mux.Vars(v.Request)["token"]
	if !slices.ContainsFunc(p.Tokens, func(row ownedRow) bool { return row.ID == id }) {
		return errHidden
	}
	if sure, err := web.confirmed(w, v, confirmPage{frame: p.frame, Heading: "Revoke the token " + id + "?", Text: "What logs in with it can no longer do so.", Button: "Revoke", Cancel: web.base + "/account"}); !sure {
		return err
	}
	if _, _, err := web.act(v, http.MethodDelete, tokensPath+"/"+id, "", nil); err != nil {
		return err
	}
	return web.back(w, v, "/account", "revoked")
}
