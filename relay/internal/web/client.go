package web

import (
	"net/http"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
)

type clientPage struct {
	frame
	Client  account.IssuedClient
	Address string // of the relay
}

// postClient makes a client and shows its token, once.
func (web *Web) postClient(w http.ResponseWriter, v *sessionRequest) error {
	c, err := web.service.CreateClient(v.ctx(), v.Principal, v.PostForm.Get("name"), 0)
	if err != nil {
		return web.showAccount(w, v, err)
	}
	return web.show(w, http.StatusOK, "client", clientPage{frame: web.frame(v, "account", "New client"), Client: c, Address: web.base(v.Request)})
}

func (web *Web) postRenameClient(w http.ResponseWriter, v *sessionRequest) error {
	if _, err := web.service.UpdateClient(v.ctx(), v.Principal, idOf(v), v.PostForm.Get("name"), nil); err != nil {
		return web.showAccount(w, v, err)
	}
	return back(w, v, "/ui/account", "saved")
}

func (web *Web) getDeleteClient(w http.ResponseWriter, v *sessionRequest) error {
	clients, err := web.service.Clients(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if c.ID == idOf(v) {
			return web.show(w, http.StatusOK, "confirm", confirmPage{
				frame: web.frame(v, "account", "Delete "+c.Name), Heading: "Delete the client “" + c.Name + "”?",
				Text:   "Its token stops working at once. Messages stay as they are.",
				Button: "Delete client", Action: v.URL.Path, Cancel: "/ui/account",
			})
		}
	}
	return refusal.NotFound("client")
}

func (web *Web) postDeleteClient(w http.ResponseWriter, v *sessionRequest) error {
	if err := web.service.DeleteClient(v.ctx(), v.Principal, idOf(v)); err != nil {
		return err
	}
	return back(w, v, "/ui/account", "deleted")
}
