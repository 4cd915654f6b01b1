package account

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/alert"
	"slipway/relay/internal/fields"
	"slipway/relay/internal/format"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Application is a sender of messages with its own token and target room.
type Application struct {
	ID                  int64      `json:"id"`
	OwnerID             int64      `json:"owner_id"`
	OwnerName           string     `json:"owner"`
	OwnerMatrixID       string     `json:"-"`
	Name                string     `json:"name"`
	Room                string     `json:"room_id"`                // address as given: id or alias; "" while the bot hasn't made the room yet
	RoomID              string     `json:"resolved_room_id"`       // "" until it is resolved
	RoomProblem         string     `json:"room_problem,omitempty"` // why nothing is sent there, or why there is no room yet
	RoomName            string     `json:"room_name"`              // "" if it has none or is not known yet
	RoomNotifies        bool       `json:"room_notifies"`          // the bot may notify everybody there (@room), as found at RoomCheckedAt
	RoomCheckedAt       time.Time  `json:"room_checked_at,omitzero"`
	RoomByAdmin         bool       `json:"room_by_admin"` // an administrator has set the room, so the owner need not be there
	OwnerAbsent         bool       `json:"owner_absent"`  // the owner is known not to be in the room, or not to have the right to write there
	RoomLost            bool       `json:"-"`             // …and messages are refused for that: the owner has lost the right to the room
	Mention             string     `json:"mention"`       // whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix IDs separated by spaces
	DefaultPriority     int        `json:"default_priority"`
	PriorityScale       Scale      `json:"priority_scale"`
	StrictCompatibility bool       `json:"strict_compatibility"`
	RateLimit           int        `json:"rate_limit"` // messages a minute; 0 means the configured default
	Lifecycle           Lifecycle  `json:"lifecycle"`
	GroupThreads        bool       `json:"group_threads"`  // the alerts of a group share a thread
	CriticalRetry       Duration   `json:"critical_retry"` // between reminders of critical alerts, which have priority 2 then; "" for none
	EscalateAfter       int        `json:"escalate_after"` // reminders that nobody has acknowledged; 0 for never
	EscalateTo          string     `json:"escalate_to"`    // …turn to these: Matrix IDs and rooms of the owner's applications, separated by spaces
	TemplateTitle       string     `json:"template_title"` // see [template.Set]
	TemplateText        string     `json:"template_text"`
	TemplatePriority    string     `json:"template_priority"`
	TemplateLink        string     `json:"template_link"`
	Digest              Duration   `json:"digest"`        // for so long messages are collected after one that is sent; "" means never
	QuietHours          string     `json:"quiet_hours"`   // in which priority 1 mentions nobody; "" for none
	TimeZone            string     `json:"time_zone"`     // of the quiet hours; "" is UTC
	QuietSummary        bool       `json:"quiet_summary"` // after them a message lists those that mentioned nobody
	Heartbeat           Duration   `json:"heartbeat"`     // longest time between two signs of life; "" means it needs none
	HeartbeatGrace      Duration   `json:"heartbeat_grace"`
	HeartbeatSince      time.Time  `json:"-"` // when the interval was set
	Description         string     `json:"description"`
	DefaultFormat       Format     `json:"default_format"`
	ShowSender          ShowSender `json:"show_sender"`
	HasSecret           bool       `json:"has_hook_secret"` // the secret itself is never shown
	HasImage            bool       `json:"-"`
	CreatedAt           time.Time  `json:"created_at"`
	TokenCreatedAt      time.Time  `json:"token_created_at"`
	OldTokenUntil       time.Time  `json:"old_token_until,omitzero"` // until then the previous token stays valid
	LastUsed            time.Time  `json:"last_used,omitzero"`
	Accepted            int64      `json:"accepted"`
	Sent                int64      `json:"sent"`
	Dead                int64      `json:"dead"`
}

// ApplicationInput holds what may be set on an application; nil fields keep their value, or take the default on
// creation.
type ApplicationInput struct {
	Name                *string        `json:"name"`
	Room                *string        `json:"room_id"`  // nil or "" on creation: the bot makes a room and invites the owner
	OwnerID             *int64         `json:"owner_id"` // administrators only
	DefaultPriority     *int           `json:"default_priority"`
	PriorityScale       *Scale         `json:"priority_scale"`
	StrictCompatibility *bool          `json:"strict_compatibility"` // the form of the token that is made next
	RateLimit           *int           `json:"rate_limit"`
	Lifecycle           *Lifecycle     `json:"lifecycle"`
	GroupThreads        *bool          `json:"group_threads"`
	CriticalRetry       *time.Duration `json:"critical_retry"`
	EscalateAfter       *int           `json:"escalate_after"`
	EscalateTo          *string        `json:"escalate_to"`
	TemplateTitle       *string        `json:"template_title"`
	TemplateText        *string        `json:"template_text"`
	TemplatePriority    *string        `json:"template_priority"`
	TemplateLink        *string        `json:"template_link"`
	Digest              *time.Duration `json:"digest"`
	QuietHours          *string        `json:"quiet_hours"`
	TimeZone            *string        `json:"time_zone"`
	QuietSummary        *bool          `json:"quiet_summary"`
	Heartbeat           *time.Duration `json:"heartbeat"`
	HeartbeatGrace      *time.Duration `json:"heartbeat_grace"`
	Description         *string        `json:"description"`
	DefaultFormat       *Format        `json:"default_format"`
	ShowSender          *ShowSender    `json:"show_sender"`
	Mention             *string        `json:"mention"`     // see [Application]
	Secret              *string        `json:"hook_secret"` // verifies signed webhooks; "" removes it
}

// settings are the indexes of the fields of an [ApplicationInput] by their names in JSON and forms.
var settings = func() map[string]int {
	byName := map[string]int{}
	for i, t := 0, reflect.TypeFor[ApplicationInput](); i < t.NumField(); i++ {
		byName[t.Field(i).Tag.Get("json")] = i
	}
	return byName
}()

// Set reads the field of a name in JSON or a form. It reports whether a setting has this name.
func (in *ApplicationInput) Set(name string, v fields.Value) (known bool, err error) {
	if name == "token_form" {
		in.StrictCompatibility, err = tokenForm(name, v)
		return true, err
	}
	i, known := settings[name]
	if !known {
		return false, nil
	}
	switch to := reflect.ValueOf(in).Elem().Field(i).Addr().Interface().(type) {
	case **string:
		*to, err = v.Text(name)
	case **int:
		*to, err = v.Integer(name)
	case **int64:
		*to, err = v.ID(name)
	case **bool:
		*to, err = v.Boolean(name)
	case **time.Duration:
		*to, err = durationOf(name, v)
	case **Scale:
		*to, err = choiceOf[Scale](name, v)
	case **Lifecycle:
		*to, err = choiceOf[Lifecycle](name, v)
	case **Format:
		*to, err = choiceOf[Format](name, v)
	case **ShowSender:
		*to, err = choiceOf[ShowSender](name, v)
	}
	return true, err
}

// tokenForm reads whose form the next token has: Gotify's clients accept only 15 characters. The form of all other tokens is
// also that of Pushover.
func tokenForm(name string, v fields.Value) (strict *bool, err error) {
	text, err := v.Text(name)
	if err != nil || text == nil {
		return nil, err
	}
	isStrict := *text == "gotify"
	if !isStrict && *text != "pushover" && *text != "" {
		return nil, refusal.Invalid(name, "The form of a token is gotify or pushover.")
	}
	return &isStrict, nil
}

// choiceOf reads a word of a closed set, which apply checks.
func choiceOf[T ~string](name string, v fields.Value) (*T, error) {
	text, err := v.Text(name)
	if text == nil {
		return nil, err
	}
	choice := T(*text)
	return &choice, err
}

// Lifecycle is how an application's messages follow what they are about.
type Lifecycle = alert.Lifecycle

// Format is the format of an application's messages that name none.
type Format string

// The formats.
const (
	FormatAuto     Format = "auto" // plain where the sender's protocol means plain text, else Markdown
	FormatMarkdown Format = "markdown"
	FormatPlain    Format = "plain"
	FormatHTML     Format = "html"
)

// MediaType resolves the format of a message: the one it names, else the one its application prefers, else own, that of
// the sender's protocol. The result is text/plain, text/html, or "" for Markdown, which unknown formats are, too.
func (f Format) MediaType(named, own string) string {
	named, _, _ = strings.Cut(strings.ToLower(named), ";")
	switch named = strings.TrimSpace(named); {
	case named == format.Plain, named == format.HTML:
		return named
	case named != "":
		return ""
	}
	switch f {
	case FormatHTML:
		return format.HTML
	case FormatPlain:
		return format.Plain
	case FormatMarkdown:
		return ""
	}
	return own
}

// ShowSender is when an application's name precedes the titles of its messages.
type ShowSender string

// The choices.
const (
	ShowAuto   ShowSender = "auto" // where other applications send to the same room
	ShowAlways ShowSender = "always"
	ShowNever  ShowSender = "never"
)

// IssuedToken is an application with its new token. The token is shown once; only its hash is stored.
type IssuedToken struct {
	Application Application
	Token       string
}

// Scale is the priority scale of an application's senders.
type Scale string

// The priority scales.
const (
	ScaleAuto   Scale = "auto"   // native where the token came in the body or on a native route, else Gotify's
	ScaleNative Scale = "native" // −2 … 2
	ScaleGotify Scale = "gotify" // 0 … 10
)

// newApplication returns the row of an application with the default settings.
func newApplication(owner int64) store.Application {
	now := time.Now().UnixMilli()
	return store.Application{
		OwnerID: owner, PriorityScale: string(ScaleAuto), DefaultFormat: string(FormatAuto), ShowSender: string(ShowAuto), Mention: MentionAuto,
		Lifecycle: string(alert.Edit),
		CreatedAt: now, TokenCreatedAt: now,
	}
}

// show returns an application as its viewers see it.
func (s *Accounts) show(r *store.Application, room store.Room, t store.Totals) Application {
	owner, _ := s.cache.user(r.OwnerID)
	app := Application{
		ID: r.ID, OwnerID: r.OwnerID, OwnerName: owner.Name, OwnerMatrixID: owner.MatrixID, Name: r.Name,
		RoomID: room.RoomID, RoomProblem: room.Blocked, RoomName: room.Name, RoomNotifies: room.Notifies, RoomCheckedAt: store.Time(room.CheckedAt),
		RoomByAdmin: r.RoomRight == rightAdmin, OwnerAbsent: r.OwnerAbsent, RoomLost: isOwners(r.RoomRight) && r.OwnerAbsent, Mention: r.Mention,
		DefaultPriority: r.DefaultPriority, PriorityScale: Scale(r.PriorityScale), StrictCompatibility: r.StrictCompatibility,
		RateLimit: r.RateLimit, Lifecycle: Lifecycle(r.Lifecycle), GroupThreads: r.GroupThreads, CriticalRetry: durationIn(r.CriticalRetry), EscalateAfter: r.EscalateAfter, EscalateTo: r.EscalateTo, TemplateTitle: r.TemplateTitle, TemplateText: r.TemplateText, TemplatePriority: r.TemplatePriority, TemplateLink: r.TemplateLink, Digest: durationIn(r.Digest), QuietHours: r.QuietHours, TimeZone: r.TimeZone, QuietSummary: r.QuietSummary, Heartbeat: durationIn(r.Heartbeat), HeartbeatGrace: durationIn(r.HeartbeatGrace), HeartbeatSince: store.Time(r.HeartbeatSince), Description: r.Description, DefaultFormat: Format(r.DefaultFormat), ShowSender: ShowSender(r.ShowSender), HasImage: r.HasImage, HasSecret: len(r.Secret) > 0,
		CreatedAt: store.Time(r.CreatedAt), TokenCreatedAt: store.Time(r.TokenCreatedAt), OldTokenUntil: store.Time(r.OldTokenUntil),
		LastUsed: store.Time(t.LastUsed), Accepted: t.Accepted, Sent: t.Sent, Dead: t.Dead,
	}
	if !room.ToMake() {
		app.Room = room.Address
	}
	return app
}

// setApplication checks the input and sets it, without the room.
func (s *Accounts) setApplication(v Principal, row *store.Application, in ApplicationInput) error {
	if in.Name != nil {
		name, err := checkName(*in.Name)
		if err != nil {
			return err
		}
		row.Name = name
	}
	set(&row.StrictCompatibility, in.StrictCompatibility)
	set(&row.GroupThreads, in.GroupThreads)
	return errors.Join(
		s.setOwner(v, row, in.OwnerID),
		s.secrets.set(row, in.Secret),
		setNumber(&row.DefaultPriority, in.DefaultPriority, message.MinPriority, message.MaxPriority, "default_priority", "A priority is a number from %d to %d."),
		choose(&row.PriorityScale, in.PriorityScale, "priority_scale", "The scale is auto, native or gotify.", ScaleAuto, ScaleNative, ScaleGotify),
		setNumber(&row.RateLimit, in.RateLimit, 0, maxRate, "rate_limit", "The rate is a number of messages a minute from %d to %d."),
		choose(&row.Lifecycle, in.Lifecycle, "lifecycle", "The life cycle is edit, thread or new.", alert.Edit, alert.Thread, alert.New),
		setPeriod(&row.CriticalRetry, in.CriticalRetry, "critical_retry", alert.MinRetry),
		setEscalation(row, in),
		setTemplates(row, in),
		setPeriod(&row.Digest, in.Digest, "digest", time.Second),
		setQuiet(row, in),
		setHeartbeat(row, in),
		choose(&row.DefaultFormat, in.DefaultFormat, "default_format", "The format is auto, markdown, plain or html.", FormatAuto, FormatMarkdown, FormatPlain, FormatHTML),
		choose(&row.ShowSender, in.ShowSender, "show_sender", "The choices are auto, always and never.", ShowAuto, ShowAlways, ShowNever),
		setMention(row, in.Mention),
		setDescription(row, in.Description),
	)
}

// setOwner changes the owner of an application.
func (s *Accounts) setOwner(v Principal, row *store.Application, owner *int64) error {
	if owner == nil || *owner == row.OwnerID {
		return nil
	}
	if !v.Admin {
		return &refusal.Error{Kind: refusal.KindForbidden, Field: "owner_id", Message: "Only administrators may give an application to another user."}
	}
	if _, ok := s.cache.user(*owner); !ok {
		return refusal.Invalid("owner_id", "There is no such user.")
	}
	row.OwnerID, row.RoomRight, row.OwnerAbsent = *owner, rightAdmin, false
	return nil
}

func setDescription(row *store.Application, text *string) error {
	if text == nil {
		return nil
	}
	if len(*text) > maxDescription {
		return refusal.Invalid("description", fmt.Sprintf("A description may have %d bytes.", maxDescription))
	}
	row.Description = strings.TrimSpace(message.Clean(*text))
	return nil
}

// set sets a value; nil leaves it as it is.
func set[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// setNumber sets a number within bounds, which the sentence names.
func setNumber(to, n *int, least, most int, field, sentence string) error {
	if n != nil && (*n < least || *n > most) {
		return refusal.Invalid(field, fmt.Sprintf(sentence, least, most))
	}
	set(to, n)
	return nil
}

// choose sets a word of a closed set; nil leaves it as it is.
func choose[T ~string](to *string, word *T, field, sentence string, from ...T) error {
	if word == nil {
		return nil
	}
	if !slices.Contains(from, *word) {
		return refusal.Invalid(field, sentence)
	}
	*to = string(*word)
	return nil
}
