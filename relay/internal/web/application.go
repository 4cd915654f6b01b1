package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/service"
	"slipway/shared/duration"
	ui "slipway/shared/web"
)

// idOf returns the ID in the path; 0 if it is too large.
func idOf(v *sessionRequest) int64 {
	id, err := strconv.ParseInt(mux.Vars(v.Request)["id"], 10, 64)
	if err != nil {
		return 0
	}
	return id
}

type applicationsPage struct {
	frame
	Applications []account.Application
}

func (web *Web) getApplications(w http.ResponseWriter, v *sessionRequest) error {
	apps, err := web.service.Applications(v.ctx(), v.Principal)
	if err != nil {
		return err
	}
	return web.show(w, http.StatusOK, "applications", applicationsPage{web.frame(v, "applications", "Applications"), apps})
}

// The targets of the form.
const (
	targetNew    = "new"    // created by the bot
	targetJoined = "joined" // the bot is in it
	targetOther  = "other"  // named by ID or alias
)

// settingsOf returns the settings of a form, whose fields are named as in the API. An empty secret keeps the present one.
func settingsOf(form url.Values) (in account.ApplicationInput, err error) {
	for name, values := range form {
		form[name] = values[len(values)-1:] // a hidden field precedes each checkbox
	}
	settings := maps.Clone(form)
	if room := strings.TrimSpace(settings.Get("room_id")); room != "" {
		settings.Set("room_id", room)
	}
	if settings.Has("rate_limit") && strings.TrimSpace(settings.Get("rate_limit")) == "" {
		settings.Set("rate_limit", "0")
	}
	if settings.Has("escalate_after") && strings.TrimSpace(settings.Get("escalate_after")) == "" {
		settings.Set("escalate_after", "0")
	}
	if settings.Get("hook_secret") == "" {
		settings.Del("hook_secret")
	}
	if settings.Has("remove_secret") {
		settings.Set("hook_secret", "")
	}
	err = request.EachOf(settings, func(name string, v request.Value) error {
		_, err := in.Set(name, v)
		return err
	})
	return in, err
}

// targetOf returns the room that the form of a new application chooses, "" for one that the bot creates.
func targetOf(form url.Values) (room string, err error) {
	room = strings.TrimSpace(form.Get("room_id"))
	switch target := form.Get("target"); {
	case target == targetNew && room != "":
		form.Set("target", targetOther) // typed without choosing the option
		return room, nil
	case target == targetNew:
		return "", nil
	case target == targetJoined:
		room = form.Get("joined")
	}
	if room == "" {
		return "", &refusal.Error{Kind: refusal.KindInvalid, Field: "room_id", Message: "Choose a room."}
	}
	return room, nil
}

type newApplicationPage struct {
	frame
	Form      url.Values // fields named as in the API
	Rooms     []delivery.RoomInfo
	RoomsGone string // why they cannot be listed
	Encrypted bool   // a new room will be
	Existing  int64  // the user's application that has the name already
}

func (web *Web) getNewApplication(w http.ResponseWriter, v *sessionRequest) error {
	return web.showNewApplication(w, v, url.Values{"target": {targetNew}}, nil)
}

func (web *Web) showNewApplication(w http.ResponseWriter, v *sessionRequest, form url.Values, cause error) error {
	p := newApplicationPage{frame: web.frame(v, "applications", "New application"), Form: form}
	status := http.StatusOK
	if cause != nil {
		var fault error
		if status, fault = p.fail(w, cause); fault != nil {
			return fault
		}
		if status == http.StatusConflict && p.Field == "name" {
			if p.Existing, fault = web.own(v, form.Get("name")); fault != nil {
				return fault
			}
		}
	}
	p.Rooms, p.RoomsGone = web.choice(v)
	if ask := web.o.Doctor.NewRooms; ask != nil {
		p.Encrypted, _ = ask()
	}
	return web.show(w, status, "application_new", p)
}

// own returns the ID of the user's application of a name; 0 if there is none.
func (web *Web) own(v *sessionRequest, name string) (int64, error) {
	apps, err := web.service.Applications(v.ctx(), v.Principal)
	for _, a := range apps {
		if a.OwnerID == v.UserID && strings.EqualFold(a.Name, strings.TrimSpace(name)) {
			return a.ID, nil
		}
	}
	return 0, err
}

// choice lists the rooms to choose from: for administrators all rooms of the bot, for users the rooms of their own
// applications, because they must not read the names of others.
func (web *Web) choice(v *sessionRequest) (rooms []delivery.RoomInfo, gone string) {
	if v.Admin {
		all, err := web.service.JoinedRooms(v.ctx())
		if err != nil {
			return nil, "Room lookup failed: the homeserver does not respond."
		}
		return all, ""
	}
	own, err := web.service.Rooms(v.ctx(), v.Principal)
	if err != nil {
		return nil, "Room lookup failed."
	}
	for _, r := range own {
		if r.RoomID != "" {
			rooms = append(rooms, delivery.RoomInfo{RoomID: r.RoomID, Name: r.Name, Joined: true, Encrypted: r.Encrypted, Writable: true})
		}
	}
	return rooms, ""
}

func (web *Web) postNewApplication(w http.ResponseWriter, v *sessionRequest) error {
	form := v.PostForm
	in, err := settingsOf(form)
	if err == nil {
		var room string
		room, err = targetOf(form)
		in.Room = &room
	}
	if err != nil {
		return web.showNewApplication(w, v, form, err)
	}
	issued, err := web.service.CreateApplication(v.ctx(), v.Principal, in)
	if err != nil {
		return web.showNewApplication(w, v, form, err)
	}
	invited := ""
	if *in.Room == "" { // the bot makes one
		invited = issued.Application.OwnerMatrixID
	}
	return web.showToken(w, v, issued, true, invited)
}

// tokenPage is the only page that shows a token.
type tokenPage struct {
	frame
	App     account.Application
	Token   string
	Address string
	Senders []sender
	Created bool
	Invited string // Matrix ID of the owner, whom the bot invites to a new room; may be empty
	Grace   time.Duration
	Room    *standing
}

func (web *Web) showToken(w http.ResponseWriter, v *sessionRequest, issued account.IssuedToken, created bool, invited string) error {
	p := tokenPage{frame: web.frame(v, "applications", "Token of "+issued.Application.Name), App: issued.Application, Token: issued.Token, Address: web.base(v.Request), Senders: sendersAt(web.base(v.Request), issued.Token, web.o.Mail, issued.Application.Heartbeat != 0), Created: created, Invited: invited}
	if until := issued.Application.OldTokenUntil; !until.IsZero() {
		p.Grace = time.Until(until)
	}
	if created {
		p.Room = web.standing(v, issued.Application)
	}
	return web.show(w, http.StatusOK, "token", p)
}

// base returns the address that senders use.
func (web *Web) base(r *http.Request) string {
	if web.o.PublicURL != "" {
		return strings.TrimRight(web.o.PublicURL, "/")
	}
	if request.Secure(r, web.o.TrustedProxies) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// standing is a sentence about whether messages to an application's room can be sent.
type standing struct {
	Good bool
	Text string
}

func (web *Web) standing(v *sessionRequest, a account.Application) *standing {
	address := a.RoomID
	if address == "" {
		address = a.Room
	}
	if address == "" && a.RoomProblem != "" {
		return &standing{Text: "The room is not ready yet and messages wait: " + ui.Sentence(a.RoomProblem)}
	}
	if address == "" {
		return &standing{Text: "The room does not exist yet; messages wait. The bot creates it and invites " + ownerOf(a) + " as soon as the homeserver allows it."}
	}
	info, err := web.service.CheckRoom(v.ctx(), address)
	switch {
	case err != nil:
		return &standing{Text: "Room lookup failed: " + reasonOf(err)}
	case info.ReplaceBy != "" && a.RoomProblem != "":
		return &standing{Text: "Messages wait: " + ui.Sentence(a.RoomProblem)}
	case info.ReplaceBy != "":
		return &standing{Text: "This room was replaced by a newer one. Invite the bot there."}
	case !info.Joined:
		return &standing{Text: "The bot, the relay's Matrix account, is not in this room. Invite it, and the messages that wait are sent."}
	case !info.Writable:
		return &standing{Text: "The bot may not write in this room. Raise its power level (its role in the room) in a Matrix client."}
	case a.RoomProblem != "":
		return &standing{Text: "Messages wait: " + ui.Sentence(a.RoomProblem)}
	case a.RoomLost:
		return &standing{Text: "Messages are refused: " + ownerOf(a) + " is not in this room any more. Join it again, or choose another room."}
	}
	a.RoomNotifies, a.RoomCheckedAt = info.Notifies, time.Now()
	if a.Unheard() {
		return &standing{Text: "The bot is in the room and may write there, but messages of priority 2 alert nobody: it may not notify the room (@room), and " + ownerOf(a) + " is not there. Raise its power level, invite the owner, or choose whom messages mention."}
	}
	return &standing{Good: true, Text: "The bot is in the room and may write there."}
}

// reasonOf returns the part of an error that may be shown.
func reasonOf(err error) string {
	var refused *refusal.Error
	if errors.As(err, &refused) {
		return ui.Sentence(refused.Message)
	}
	return ui.Sentence(err.Error())
}

func ownerOf(a account.Application) string {
	if a.OwnerMatrixID != "" {
		return a.OwnerMatrixID
	}
	return "the owner"
}

type applicationPage struct {
	frame
	App    account.Application
	Form   url.Values // fields named as in the API
	Room   *standing
	Recent []post.View

	Current string         // address of the application's room, "" if there is none yet
	Others  []account.Room // rooms of other applications
	Typed   string         // room that a failed attempt named

	Preview *account.Preview // nil unless it was asked for
	Payload string           // …over this

	Senders   []sender
	Heartbeat *heartbeat // nil if none is expected
}

// heartbeat is what an application page shows of the heartbeats that are due.
type heartbeat struct {
	Every string
	Last  time.Time // zero if none has come
	Due   time.Time
}

func heartbeatOf(a account.Application) *heartbeat {
	if a.Heartbeat == 0 {
		return nil
	}
	from := a.HeartbeatSince
	if a.LastUsed.After(from) {
		from = a.LastUsed
	}
	return &heartbeat{Every: a.Heartbeat.String(), Last: a.LastUsed, Due: from.Add(time.Duration(a.Heartbeat))}
}

func (web *Web) getApplication(w http.ResponseWriter, v *sessionRequest) error {
	return web.showApplication(w, v, nil, nil)
}

// showApplication shows the page, with the form and cause of a failed attempt if there was one.
func (web *Web) showApplication(w http.ResponseWriter, v *sessionRequest, form url.Values, cause error) error {
	return web.showPreview(w, v, form, cause, nil, "")
}

func (web *Web) showPreview(w http.ResponseWriter, v *sessionRequest, form url.Values, cause error, preview *account.Preview, payload string) error {
	a, err := web.service.Application(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	p := applicationPage{frame: web.frame(v, "applications", a.Name), App: a, Preview: preview, Payload: payload, Senders: sendersAt(web.base(v.Request), "TOKEN", web.o.Mail, a.Heartbeat != 0), Heartbeat: heartbeatOf(a)}
	status := http.StatusOK
	if cause != nil {
		if status, err = p.fail(w, cause); err != nil {
			return err
		}
	}
	if p.Form, err = formFrom(a); err != nil {
		return err
	}
	if p.Current = p.Form.Get("room_id"); form != nil {
		p.Typed = form.Get("room_id")
	}
	maps.Copy(p.Form, form)
	p.Room = web.standing(v, a)
	if p.Others, err = web.otherRooms(v, a); err != nil {
		return err
	}
	page, err := web.service.Messages(v.ctx(), v.Principal, service.Filter{ApplicationID: a.ID, Limit: shownRecent})
	if err != nil {
		return err
	}
	p.Recent = page.Messages
	return web.show(w, status, "application", p)
}

// otherRooms lists the rooms of the user's applications, without that of a.
func (web *Web) otherRooms(v *sessionRequest, a account.Application) ([]account.Room, error) {
	all, err := web.service.Rooms(v.ctx(), v.Principal)
	return slices.DeleteFunc(all, func(r account.Room) bool { return r.RoomID == "" || r.RoomID == a.RoomID || r.Address == a.Room }), err
}

// formFrom returns the settings of an application as fields of a form.
func formFrom(a account.Application) (url.Values, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	var settings map[string]any
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, err
	}
	form := url.Values{}
	for name, value := range settings {
		form.Set(name, fmt.Sprint(value))
	}
	form.Set("room_id", cmp.Or(a.Room, a.RoomID))
	if !a.HasSecret {
		form.Del("has_hook_secret")
	}
	return form, nil
}

func (web *Web) postApplication(w http.ResponseWriter, v *sessionRequest) error {
	form := v.PostForm
	in, err := settingsOf(form)
	if typed := strings.TrimSpace(form.Get("room_id")); typed == "" && form.Has("joined") {
		room := form.Get("joined")
		in.Room = &room
	}
	if err == nil {
		_, err = web.service.UpdateApplication(v.ctx(), v.Principal, idOf(v), in)
	}
	if err != nil {
		return web.showApplication(w, v, form, err)
	}
	return back(w, v, v.URL.Path, "saved")
}

func (web *Web) postToken(w http.ResponseWriter, v *sessionRequest) error {
	grace, err := duration.Parse(v.PostForm.Get("grace"))
	if err != nil {
		return web.showApplication(w, v, nil, &refusal.Error{Kind: refusal.KindInvalid, Field: "grace", Message: "Choose how long the current token stays valid."})
	}
	issued, err := web.service.RegenerateToken(v.ctx(), v.Principal, idOf(v), grace)
	if err != nil {
		return web.showApplication(w, v, nil, err)
	}
	return web.showToken(w, v, issued, false, "")
}

// postTest sends a message as the application would.
func (web *Web) postTest(w http.ResponseWriter, v *sessionRequest) error {
	get := v.PostForm.Get
	priority, err := strconv.Atoi(get("priority"))
	if err != nil {
		priority = 0
	}
	app, err := web.service.AppFor(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	accepted, err := web.service.AcceptFor(v.ctx(), v.Principal, idOf(v), post.Draft{
		Content: post.Content{Title: get("title"), Body: get("message"), ContentType: app.DefaultFormat.MediaType("", "")}, Priority: &priority, Source: "web",
	})
	if err != nil {
		return web.showApplication(w, v, nil, err)
	}
	owner := account.Principal{ApplicationID: accepted.ApplicationID}
	if _, err := web.service.Wait(v.ctx(), owner, accepted.ID, testWait); err != nil {
		return err
	}
	return back(w, v, "/ui/messages/"+strconv.FormatInt(accepted.ID, 10), "testqueued")
}

// testWait is how long the page of a test message waits for its delivery, so that it usually shows the outcome.
const testWait = 2 * time.Second

// confirmPage asks for a confirmation.
type confirmPage struct {
	frame
	Heading, Text, Button string
	Action, Cancel        string
}

func (web *Web) getDeleteApplication(w http.ResponseWriter, v *sessionRequest) error {
	a, err := web.service.Application(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	p := confirmPage{
		frame: web.frame(v, "applications", "Delete "+a.Name), Heading: "Delete “" + a.Name + "”?",
		Text:   "Its token stops working at once, its history is removed, and waiting messages are not delivered. What is in the room stays there.",
		Button: "Delete application", Action: v.URL.Path, Cancel: strings.TrimSuffix(v.URL.Path, "/delete"),
	}
	return web.show(w, http.StatusOK, "confirm", p)
}

func (web *Web) postDeleteApplication(w http.ResponseWriter, v *sessionRequest) error {
	if err := web.service.DeleteApplication(v.ctx(), v.Principal, idOf(v)); err != nil {
		return err
	}
	return back(w, v, "/ui/applications", "deleted")
}

func (web *Web) getImage(w http.ResponseWriter, v *sessionRequest) error {
	data, kind, err := web.service.Image(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "private, no-cache")
	_, _ = w.Write(data) // a closed connection needs no image
	return nil
}

// postImage stores an image, or removes it if no file was chosen.
func (web *Web) postImage(w http.ResponseWriter, v *sessionRequest) error {
	var data []byte
	if file, _, err := v.FormFile("image"); err == nil {
		if data, err = io.ReadAll(file); err != nil {
			return err
		}
	}
	if err := web.service.SetImage(v.ctx(), v.Principal, idOf(v), data); err != nil {
		return web.showApplication(w, v, nil, err)
	}
	return back(w, v, strings.TrimSuffix(v.URL.Path, "/image"), "saved")
}
