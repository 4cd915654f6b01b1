package api

import (
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// client is the JSON of a client, as Gotify has it.
type client struct {
	ID        int64      `json:"id"`
	Name      string     `json:"name"`
	Token     string     `json:"token,omitempty"` // when it is made, and for the client that asks
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed"`
}

func showClient(c account.Client, token string) client {
	return client{ID: c.ID, Name: c.Name, Token: token, CreatedAt: c.CreatedAt.UTC(), LastUsed: timeOrNull(post.Millis(c.LastUsed))}
}

// listClients shows a client its own token: Gotify's Android app finds itself by it when it logs out.
func (a *API) listClients(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	clients, err := a.service.Clients(r.Context(), v)
	list := shown(clients, func(c account.Client) client {
		token := ""
		if c.ID == v.ClientID {
			token, _ = protocol.TokenOf(r)
		}
		return showClient(c, token)
	})
	return answer(w, list, err)
}

// clientName reads the name of a client. Gotify's clients may send more than that.
func (a *API) clientName(r *http.Request) (name string, err error) {
	err = a.readFields(r, func(field string, v request.Value) error {
		if field != "name" {
			return nil
		}
		text, err := v.Text(field)
		if text != nil {
			name = *text
		}
		return err
	})
	return name, err
}

// createClient answers 200, as Gotify does.
func (a *API) createClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	name, err := a.clientName(r)
	if err != nil {
		return err
	}
	c, err := a.service.CreateClient(r.Context(), v, name)
	return answer(w, showClient(c.Client, c.Token), err)
}

func (a *API) updateClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	name, err := a.clientName(r)
	if err != nil {
		return err
	}
	c, err := a.service.RenameClient(r.Context(), v, idOf(r), name)
	return answer(w, showClient(c, ""), err)
}

// logOutClient deletes the client whose token the request has.
func (a *API) logOutClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if v.ClientID == 0 {
		return refusal.Forbidden("Only a client logs out.")
	}
	return answer(w, done{true}, a.service.DeleteClient(r.Context(), v, v.ClientID))
}

func (a *API) deleteClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.DeleteClient(r.Context(), v, idOf(r)))
}
