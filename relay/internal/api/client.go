package api

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/post"
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
	IdleLimit int64      `json:"expiresAfterInactivitySeconds"` // 0 means never
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

func showClient(c account.Client, token string) client {
	return client{
		ID: c.ID, Name: c.Name, Token: token, CreatedAt: c.CreatedAt.UTC(), LastUsed: timeOrNull(post.Millis(c.LastUsed)),
		IdleLimit: int64(c.IdleLimit / time.Second), ExpiresAt: timeOrNull(post.Millis(c.Expires())),
	}
}

// listClients shows a client its own token: Gotify's Android app finds itself by it when it logs out.
func (a *API) listClients(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	clients, err := a.service.Clients(r.Context(), v)
	list := shown(clients, func(c account.Client) client {
		token := ""
		if c.ID == v.ClientID {
			token, _, _ = a.clientToken(r)
		}
		return showClient(c, token)
	})
	return answer(w, list, err)
}

// clientFields reads the name of a client, and its idle limit, nil if that is absent. Gotify's clients may send more than that.
func (a *API) clientFields(r *http.Request) (name string, idle *time.Duration, err error) {
	err = a.readFields(r, func(field string, v request.Value) error {
		switch field {
		case "name":
			text, err := v.Text(field)
			if text != nil {
				name = *text
			}
			return err
		case "expiresAfterInactivitySeconds":
			n, err := v.Integer(field)
			if n == nil || err != nil {
				return err
			}
			if *n < 0 || *n > math.MaxInt32 {
				return refusal.Invalid(field, fmt.Sprintf("The time must be 0 to %d seconds.", math.MaxInt32))
			}
			limit := time.Duration(*n) * time.Second
			idle = &limit
		}
		return nil
	})
	return name, idle, err
}

// createClient answers 200, as Gotify does.
func (a *API) createClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	name, idle, err := a.clientFields(r)
	if err != nil {
		return err
	}
	if idle == nil {
		idle = new(time.Duration)
	}
	c, err := a.service.CreateClient(r.Context(), v, name, *idle)
	return answer(w, showClient(c.Client, c.Token), err)
}

func (a *API) updateClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	name, idle, err := a.clientFields(r)
	if err != nil {
		return err
	}
	c, err := a.service.UpdateClient(r.Context(), v, idOf(r), name, idle)
	return answer(w, showClient(c, ""), err)
}

func (a *API) deleteClient(w http.ResponseWriter, r *http.Request, v account.Principal) error {
	return answer(w, done{true}, a.service.DeleteClient(r.Context(), v, idOf(r)))
}
