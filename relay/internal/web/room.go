package web

import (
	"net/http"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/doctor"
	"slipway/relay/internal/encryption"
)

type roomsPage struct {
	frame
	Status     delivery.Status
	Rooms      []account.Room
	Unheard    map[string][]string // by room: the applications whose messages of priority 2 alert nobody
	Others     []delivery.RoomInfo // the bot is in them, no application sends there
	OthersGone string
	Bot        string
	Homeserver string
	Findings   []doctor.Finding

	Device        encryption.Identity // in encrypted rooms
	CannotEncrypt string              // why not
}

func (web *Web) getRooms(w http.ResponseWriter, v *sessionRequest) error {
	p := roomsPage{frame: web.frame(v, "rooms", "Rooms"), Bot: web.o.Doctor.Identity()}
	var err error
	if p.Rooms, err = web.service.Rooms(v.ctx(), v.Principal); err != nil {
		return err
	}
	p.Status = web.status(v, p.Rooms)
	if ask := web.o.Doctor.Encryption; ask != nil {
		p.Device, p.CannotEncrypt = ask()
	}
	apps, err := web.service.Applications(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	p.Unheard = map[string][]string{}
	for _, a := range apps {
		if a.Unheard() {
			p.Unheard[a.RoomID] = append(p.Unheard[a.RoomID], a.Name)
		}
	}
	if v.Admin {
		p.Homeserver = web.o.Homeserver
		p.Others, p.OthersGone = web.others(v, p.Rooms)
		if v.URL.Query().Has("check") {
			p.Findings = doctor.Examine(v.ctx(), web.o.Doctor, v.Principal)
		}
	}
	return web.show(w, http.StatusOK, "rooms", p)
}

// others returns the rooms of the bot that no application sends to.
func (web *Web) others(v *sessionRequest, used []account.Room) (others []delivery.RoomInfo, gone string) {
	all, gone := web.choice(v)
	taken := map[string]bool{}
	for _, r := range used {
		taken[r.RoomID] = true
	}
	for _, r := range all {
		if !taken[r.RoomID] {
			others = append(others, r)
		}
	}
	return others, gone
}

func (web *Web) postRetryRoom(w http.ResponseWriter, v *sessionRequest) error {
	if err := web.service.RetryRoom(v.ctx(), v.Principal, v.PostForm.Get("room")); err != nil {
		return err
	}
	return back(w, v, "/ui/rooms", "retried")
}
