package web

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
)

// idOf is the number in the path; one too large for a number names nothing.
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

// applicationForm is what the forms of an application hold.
type applicationForm struct {
	Name, Target, Joined, Room string
	Priority                   int
	Scale                      account.Scale
	Strict                     bool
	RateLimit                  string
	Description                string
	Format                     account.Format
	Sender                     account.ShowSender
	Mention                    string
}

// The targets of the form.
const (
	targetNew    = "new"    // a room of the bot's making
	targetJoined = "joined" // one that the bot is in
	targetOther  = "other"  // one named by id or alias
)

func formOf(v *sessionRequest) applicationForm {
	get := v.PostForm.Get
	f := applicationForm{
		Name: get("name"), Target: get("target"), Joined: get("joined"), Room: strings.TrimSpace(get("room")),
		Scale: account.Scale(get("scale")), Strict: get("strict") != "", RateLimit: strings.TrimSpace(get("rate")),
		Description: get("description"), Format: account.Format(get("format")), Sender: account.ShowSender(get("sender")), Mention: strings.TrimSpace(get("mention")),
	}
	if f.Target == targetNew && f.Room != "" {
		f.Target = targetOther // typed without choosing it
	}
	f.Priority, _ = strconv.Atoi(get("priority")) // a list of numbers: anything else is not from our form
	return f
}

// input checks what only the form knows; the rules check the rest.
func (f *applicationForm) input() (in account.ApplicationInput, err error) {
	rate := 0
	if f.RateLimit != "" {
		if rate, err = strconv.Atoi(f.RateLimit); err != nil {
			return in, &refusal.Error{Kind: refusal.KindInvalid, Field: "rate_limit", Message: "The limit must be a whole number."}
		}
	}
	in = account.ApplicationInput{
		Name: &f.Name, DefaultPriority: &f.Priority, PriorityScale: &f.Scale, StrictCompatibility: &f.Strict, RateLimit: &rate,
		Description: &f.Description,
	}
	if f.Format != "" {
		in.DefaultFormat = &f.Format
	}
	if f.Sender != "" {
		in.ShowSender = &f.Sender
	}
	if f.Mention != "" {
		in.Mention = &f.Mention
	}
	room := ""
	switch f.Target {
	case targetJoined:
		room = f.Joined
	case targetOther:
		room = f.Room
	}
	if room == "" && (f.Target == targetJoined || f.Target == targetOther) {
		return in, &refusal.Error{Kind: refusal.KindInvalid, Field: "room_id", Message: "Choose a room."}
	}
	in.Room = &room
	return in, nil
}

type newApplicationPage struct {
	frame
	Form      applicationForm
	Rooms     []delivery.RoomInfo
	RoomsGone string // why they cannot be listed
	Encrypted bool   // a new room will be
	Existing  int64  // the user's application that has the name already
}

func (web *Web) getNewApplication(w http.ResponseWriter, v *sessionRequest) error {
	form := applicationForm{Target: targetNew, Scale: account.ScaleAuto, Format: account.FormatAuto, Sender: account.ShowAuto}
	return web.showNewApplication(w, v, form, nil)
}

func (web *Web) showNewApplication(w http.ResponseWriter, v *sessionRequest, form applicationForm, cause error) error {
	p := newApplicationPage{frame: web.frame(v, "applications", "New application"), Form: form}
	status := http.StatusOK
	if cause != nil {
		var fault error
		if status, fault = p.fail(w, cause); fault != nil {
			return fault
		}
		if status == http.StatusConflict && p.Field == "name" {
			if p.Existing, fault = web.own(v, form.Name); fault != nil {
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

// own returns the id of the user's application of a name, 0 if there is none.
func (web *Web) own(v *sessionRequest, name string) (int64, error) {
	apps, err := web.service.Applications(v.ctx(), v.Principal)
	for _, a := range apps {
		if a.OwnerID == v.UserID && strings.EqualFold(a.Name, strings.TrimSpace(name)) {
			return a.ID, nil
		}
	}
	return 0, err
}

// choice lists the rooms to choose from: an administrator all that the bot is
// in, a user those of the own applications, because the names of others' rooms
// are not theirs to read.
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
	form := formOf(v)
	in, err := form.input()
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
	Base    string
	Created bool
	Invited string // Matrix ID of the owner, whom the bot invites to a new room; may be empty
	Grace   time.Duration
	Room    *standing
}

func (web *Web) showToken(w http.ResponseWriter, v *sessionRequest, issued account.IssuedToken, created bool, invited string) error {
	p := tokenPage{frame: web.frame(v, "applications", "Token of "+issued.Application.Name), App: issued.Application, Token: issued.Token, Base: web.base(v.Request), Created: created, Invited: invited}
	if until := issued.Application.OldTokenUntil; !until.IsZero() {
		p.Grace = time.Until(until)
	}
	if created {
		p.Room = web.standing(v, issued.Application)
	}
	return web.show(w, http.StatusOK, "token", p)
}

// base is the address that senders use.
func (web *Web) base(r *http.Request) string {
	if web.o.PublicURL != "" {
		return strings.TrimRight(web.o.PublicURL, "/")
	}
	if httprequest.Secure(r, web.o.TrustedProxies) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// standing says in a sentence whether messages to an application's room can be sent.
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
		return &standing{Text: "The room is not ready yet and messages wait: " + sentence(a.RoomProblem)}
	}
	if address == "" {
		return &standing{Text: "The room does not exist yet; messages wait. The bot creates it and invites " + ownerOf(a) + " as soon as the homeserver allows it."}
	}
	info, err := web.service.CheckRoom(v.ctx(), address)
	switch {
	case err != nil:
		return &standing{Text: "Room lookup failed: " + reasonOf(err)}
	case info.ReplaceBy != "" && a.RoomProblem != "":
		return &standing{Text: "Messages wait: " + sentence(a.RoomProblem)}
	case info.ReplaceBy != "":
		return &standing{Text: "This room was replaced by a newer one. Invite the bot there."}
	case !info.Joined:
		return &standing{Text: "The bot, the relay's Matrix account, is not in this room. Invite it, and the messages that wait are sent."}
	case !info.Writable:
		return &standing{Text: "The bot may not write in this room. Raise its power level (its role in the room) in a Matrix client."}
	case a.RoomProblem != "":
		return &standing{Text: "Messages wait: " + sentence(a.RoomProblem)}
	case a.RoomLost:
		return &standing{Text: "Messages are refused: " + ownerOf(a) + " is not in this room any more. Join it again, or choose another room."}
	}
	a.RoomNotifies, a.RoomCheckedAt = info.Notifies, time.Now()
	if a.Unheard() {
		return &standing{Text: "The bot is in the room and may write there, but messages of priority 2 alert nobody: it may not notify the room (@room), and " + ownerOf(a) + " is not there. Raise its power level, invite the owner, or choose whom messages mention."}
	}
	return &standing{Good: true, Text: "The bot is in the room and may write there."}
}

// reasonOf is what may be shown of an error.
func reasonOf(err error) string {
	var refused *refusal.Error
	if errors.As(err, &refused) {
		return sentence(refused.Message)
	}
	return sentence(err.Error())
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
	Form   applicationForm
	Room   *standing
	Recent []message.Message
}

func (web *Web) getApplication(w http.ResponseWriter, v *sessionRequest) error {
	return web.showApplication(w, v, nil, nil)
}

// showApplication shows the page again after a form that failed.
func (web *Web) showApplication(w http.ResponseWriter, v *sessionRequest, form *applicationForm, cause error) error {
	a, err := web.service.Application(v.ctx(), v.Principal, idOf(v))
	if err != nil {
		return err
	}
	p := applicationPage{frame: web.frame(v, "applications", a.Name), App: a}
	status := http.StatusOK
	if cause != nil {
		if status, err = p.fail(w, cause); err != nil {
			return err
		}
	}
	p.Form = formFrom(a)
	if form != nil {
		p.Form = *form
	}
	p.Room = web.standing(v, a)
	page, err := web.service.Messages(v.ctx(), v.Principal, intake.Filter{ApplicationID: a.ID, Limit: shownRecent})
	if err != nil {
		return err
	}
	p.Recent = page.Messages
	return web.show(w, status, "application", p)
}

func formFrom(a account.Application) applicationForm {
	f := applicationForm{
		Name: a.Name, Room: a.Room, Priority: a.DefaultPriority, Scale: a.PriorityScale, Strict: a.StrictCompatibility,
		Description: a.Description, Format: a.DefaultFormat, Sender: a.ShowSender, Mention: a.Mention,
	}
	if f.Room == "" {
		f.Room = a.RoomID
	}
	if a.RateLimit > 0 {
		f.RateLimit = strconv.Itoa(a.RateLimit)
	}
	return f
}

func (web *Web) postApplication(w http.ResponseWriter, v *sessionRequest) error {
	form := formOf(v)
	in, err := form.input()
	if err == nil {
		in.Room = &form.Room // the page of an application has a field only; empty keeps the room
		_, err = web.service.UpdateApplication(v.ctx(), v.Principal, idOf(v), in)
	}
	if err != nil {
		return web.showApplication(w, v, &form, err)
	}
	return back(w, v, v.URL.Path, "saved")
}

func (web *Web) postToken(w http.ResponseWriter, v *sessionRequest) error {
	grace, err := time.ParseDuration(v.PostForm.Get("grace"))
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
	accepted, err := web.service.AcceptFor(v.ctx(), v.Principal, idOf(v), intake.Request{
		Title: get("title"), Message: get("message"), Priority: &priority, NativeScale: true, Source: "web",
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

// testWait is how long the page of a test message waits for its delivery, so
// that it mostly shows the end of it.
const testWait = 2 * time.Second

// confirmPage asks before something is lost.
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
	_, _ = w.Write(data) // a browser that is gone needs no image
	return nil
}

// postImage takes an image, or removes it when none was chosen.
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
