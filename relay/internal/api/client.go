package api

import (
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/fields"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
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
	return client{ID: c.ID, Name: c.Name, Token: token, CreatedAt: c.CreatedAt.UTC(), LastUsed: timeOrNull(c.LastUsed)}
}

// listClients shows a client its own token: Gotify's Android app finds itself by it when it logs out.
func (a *API) listClients(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	clients, err := a.service.Clients(r.Context(), v)
	if err != nil {
		return err
	}
	list := make([]client, 0, len(clients))
	for _, c := range clients {
		token := ""
		if c.ID == v.ClientID {
			token, _ = inbound.TokenOf(r)
		}
		list = append(list, showClient(c, token))
	}
	httprequest.WriteJSON(w, http.StatusOK, list)
	return nil
}

// clientName reads the name of a client. Gotify's clients may send more than that.
func (a *API) clientName(r *http.Request) (name string, err error) {
	err = a.readFields(r, func(field string, v fields.Value) error {
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
	if err != nil {
		return err
	}
	httprequest.WriteJSON(w, http.StatusOK, showClient(c.Client, c.Token))
	return nil
}

func (a *API) updateClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	name, err := a.clientName(r)
	if err != nil {
		return err
	}
	c, err := a.service.RenameClient(r.Context(), v, idOf(r), name)
	if err != nil {
		return err
	}
	httprequest.WriteJSON(w, http.StatusOK, showClient(c, ""))
	return nil
}

func (a *API) deleteClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	if err := a.service.DeleteClient(r.Context(), v, idOf(r)); err != nil {
		return err
	}
	httprequest.WriteJSON(w, http.StatusOK, done{true})
	return nil
}
