package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway/registry/internal/identity/personal"
	"slipway/registry/internal/oci"
)

// maxOwned bounds the tokens of all people that the page lists.
const maxOwned = 500

// ownedRow is a personal access token in a list.
type ownedRow struct {
	personal.Owned
	Used    time.Time
	Expired bool
}

func newOwnedRow(people *personal.Tokens, token personal.Owned) ownedRow {
	return ownedRow{Owned: token, Used: people.LastUsed(token.ID), Expired: time.Now().After(token.Expires)}
}

type tokensPage struct {
	frame
	Owner  string // whose tokens are listed, "" = everybody's
	Tokens []ownedRow
	More   bool // not all are listed
}

// managesTokens reports whether the visitor may revoke everybody's personal access tokens.
func (web *Web) managesTokens(v *visit) bool {
	return web.o.Auth != nil && web.o.Auth.People() != nil && v.csrf != "" && web.administers(v)
}

// getTokens lists personal access tokens to administrators.
func (web *Web) getTokens(w http.ResponseWriter, v *visit) error {
	if !web.managesTokens(v) {
		return errNoPage
	}
	people := web.o.Auth.People()
	p := tokensPage{frame: web.frame(v, "tokens", "Tokens"), Owner: strings.TrimSpace(v.URL.Query().Get("owner"))}
	var found []personal.Owned
	var err error
	if p.Owner == "" {
		found, p.More, err = people.Everybody(v.Context(), maxOwned)
	} else {
		var own []personal.Token
		own, err = people.List(v.Context(), p.Owner)
		for _, token := range own {
			found = append(found, personal.Owned{Token: token, Owner: p.Owner})
		}
	}
	for _, token := range found {
		p.Tokens = append(p.Tokens, newOwnedRow(people, token))
	}
	if err != nil {
		return err
	}
	return web.pages.Show(w, http.StatusOK, "tokens", p)
}

// postRevokeOwned revokes a token of a user, or all of them if the form names none.
func (web *Web) postRevokeOwned(w http.ResponseWriter, v *visit) error {
	if !web.managesTokens(v) {
		return errNoPage
	}
	people := web.o.Auth.People()
	owner, id := v.PostForm.Get("owner"), v.PostForm.Get("token")
	ask := confirmPage{frame: web.frame(v, "tokens", "Revoke"), Heading: "Revoke the token " + id + " of " + owner + "?", Text: "What logs in with it can no longer do so.", Button: "Revoke", Cancel: web.base + "/tokens"}
	if id == "" {
		ask.Heading, ask.Text = "Revoke all tokens of "+owner+"?", "What logs in with them can no longer do so."
	}
	if sure, err := web.confirmed(w, v, ask); !sure {
		return err
	}
	revoke := []personal.Token{{ID: id}}
	if id == "" {
		var err error
		if revoke, err = people.List(v.Context(), owner); err != nil {
			return err
		}
	}
	for _, token := range revoke {
		_, _, err := web.act(v, http.MethodDelete, tokensPath+"/"+url.PathEscape(token.ID)+"?owner="+url.QueryEscape(owner), "", nil)
		if err != nil && (id != "" || !oci.IsUnknown(err)) {
			return err
		}
	}
	return web.back(w, v, "/tokens", "revoked")
}
