package account

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
	"slipway/relay/internal/template"
)

const (
	maxRate        = 1_000_000
	maxDescription = 1 << 10
	maxEscalation  = 100
)

// ApplicationInput holds the settings of an application; nil fields keep their value, or take the default on
// creation.
type ApplicationInput struct {
	Name                *string          `json:"name"`
	Room                *string          `json:"room_id"`  // nil or "" on creation: the bot makes a room and invites the owner
	OwnerID             *int64           `json:"owner_id"` // administrators only
	DefaultPriority     *int             `json:"default_priority"`
	PriorityScale       *post.Scale      `json:"priority_scale"`
	StrictCompatibility *bool            `json:"strict_compatibility"` // the form of the token that is made next
	RateLimit           *int             `json:"rate_limit"`
	Lifecycle           *post.Lifecycle  `json:"lifecycle"`
	GroupThreads        *bool            `json:"group_threads"`
	CriticalRetry       *time.Duration   `json:"critical_retry"`
	EscalateAfter       *int             `json:"escalate_after"`
	EscalateTo          *string          `json:"escalate_to"`
	TemplateTitle       *string          `json:"template_title"`
	TemplateText        *string          `json:"template_text"`
	TemplatePriority    *string          `json:"template_priority"`
	TemplateLink        *string          `json:"template_link"`
	Digest              *time.Duration   `json:"digest"`
	RepositoryDigest    *time.Duration   `json:"repository_digest"`
	QuietHours          *string          `json:"quiet_hours"`
	TimeZone            *string          `json:"time_zone"`
	QuietSummary        *bool            `json:"quiet_summary"`
	Heartbeat           *time.Duration   `json:"heartbeat"`
	HeartbeatGrace      *time.Duration   `json:"heartbeat_grace"`
	Description         *string          `json:"description"`
	DefaultFormat       *post.Format     `json:"default_format"`
	ShowSender          *post.ShowSender `json:"show_sender"`
	Mention             *string          `json:"mention"`     // see [Application]
	Secret              *string          `json:"hook_secret"` // verifies signed webhooks; "" removes it
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
func (in *ApplicationInput) Set(name string, v request.Value) (known bool, err error) {
	if name == "token_form" {
		in.StrictCompatibility, err = tokenForm(name, v)
		return true, err
	}
	i, known := settings[name]
	if !known {
		return false, nil
	}
	if name == "default_priority" {
		if word, err := v.Text(name); err == nil && word != nil {
			if p, ok := post.ParsePriority(*word); ok {
				in.DefaultPriority = &p
				return true, nil
			}
		}
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
	case **post.Scale:
		*to, err = choiceOf[post.Scale](name, v)
	case **post.Lifecycle:
		*to, err = choiceOf[post.Lifecycle](name, v)
	case **post.Format:
		*to, err = choiceOf[post.Format](name, v)
	case **post.ShowSender:
		*to, err = choiceOf[post.ShowSender](name, v)
	}
	return true, err
}

// tokenForm reads whose form the next token has: Gotify's clients accept only 15 characters. The form of all other tokens is
// also that of Pushover.
func tokenForm(name string, v request.Value) (strict *bool, err error) {
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
func choiceOf[T ~string](name string, v request.Value) (*T, error) {
	text, err := v.Text(name)
	if text == nil {
		return nil, err
	}
	choice := T(*text)
	return &choice, err
}

// newRow returns the row of an application with the default settings.
func newRow(owner int64) store.Application {
	now := time.Now().UnixMilli()
	return store.Application{
		OwnerID:   owner,
		Settings:  store.Settings{PriorityScale: post.ScaleAuto, DefaultFormat: post.FormatAuto, ShowSender: post.ShowAuto, Mention: mentionAuto, Lifecycle: post.LifecycleEdit},
		CreatedAt: now, TokenCreatedAt: now,
	}
}

// Apply checks the input and sets it, without what only the accounts know: owner, room and secret.
func (in ApplicationInput) Apply(row *store.Application) error {
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
		setNumber(&row.DefaultPriority, in.DefaultPriority, post.MinPriority, post.MaxPriority, "default_priority", "The priority must be min, low, normal, high or max, or a number from %d to %d."),
		choose(&row.PriorityScale, in.PriorityScale, "priority_scale", "The scale must be auto, native or gotify.", post.ScaleAuto, post.ScaleNative, post.ScaleGotify),
		setNumber(&row.RateLimit, in.RateLimit, 0, maxRate, "rate_limit", "The rate must be a number of messages a minute, from %d to %d."),
		choose(&row.Lifecycle, in.Lifecycle, "lifecycle", "The life cycle must be edit, thread or new.", post.LifecycleEdit, post.LifecycleThread, post.LifecycleNew),
		setPeriod(&row.CriticalRetry, in.CriticalRetry, "critical_retry", post.MinRetry),
		setEscalation(row, in),
		in.SetTemplates(row),
		setPeriod(&row.Digest, in.Digest, "digest", time.Second),
		setPeriod(&row.RepositoryDigest, in.RepositoryDigest, "repository_digest", time.Second),
		setQuiet(row, in),
		setHeartbeat(row, in),
		choose(&row.DefaultFormat, in.DefaultFormat, "default_format", "The format must be auto, markdown, plain or html.", post.FormatAuto, post.FormatMarkdown, post.FormatPlain, post.FormatHTML),
		choose(&row.ShowSender, in.ShowSender, "show_sender", "show_sender must be auto, always or never.", post.ShowAuto, post.ShowAlways, post.ShowNever),
		setMention(row, in.Mention),
		setDescription(row, in.Description),
	)
}

func setDescription(row *store.Application, text *string) error {
	if text == nil {
		return nil
	}
	if len(*text) > maxDescription {
		return refusal.Invalid("description", fmt.Sprintf("A description may have %d bytes.", maxDescription))
	}
	row.Description = strings.TrimSpace(post.Clean(*text))
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
func choose[T ~string](to, word *T, field, sentence string, from ...T) error {
	if word == nil {
		return nil
	}
	if !slices.Contains(from, *word) {
		return refusal.Invalid(field, sentence)
	}
	*to = *word
	return nil
}

// setEscalation checks and sets whom reminders turn to.
func setEscalation(row *store.Application, in ApplicationInput) error {
	err := setNumber(&row.EscalateAfter, in.EscalateAfter, 0, maxEscalation, "escalate_after", "The number of reminders is from %d to %d.")
	if err != nil || in.EscalateTo == nil {
		return err
	}
	targets := listOf(*in.EscalateTo)
	if len(targets) > maxMentions {
		return refusal.Invalid("escalate_to", fmt.Sprintf("Reminders can turn to at most %d people and rooms.", maxMentions))
	}
	for _, to := range targets {
		room := strings.HasPrefix(to, "!") || strings.HasPrefix(to, "#")
		if room && CheckAddress(to) != nil || !room && !isMatrixID(to) {
			return refusal.Invalid("escalate_to", "The choices are Matrix IDs such as @name:server, and rooms of your applications, by !id or #alias:server.")
		}
	}
	row.EscalateTo = strings.Join(targets, " ")
	return nil
}

// listOf splits a list of people and rooms.
func listOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// TemplatesOf returns the templates of an application.
func TemplatesOf(app *store.Application) template.Set {
	return template.Set{Title: app.TemplateTitle, Text: app.TemplateText, Priority: app.TemplatePriority, Link: app.TemplateLink}
}

// SetTemplates checks and sets the templates.
func (in ApplicationInput) SetTemplates(row *store.Application) error {
	for _, t := range []struct {
		to   *string
		text *string
	}{{&row.TemplateTitle, in.TemplateTitle}, {&row.TemplateText, in.TemplateText}, {&row.TemplatePriority, in.TemplatePriority}, {&row.TemplateLink, in.TemplateLink}} {
		if t.text != nil {
			*t.to = post.Clean(strings.ReplaceAll(*t.text, "\r\n", "\n")) // as forms send it
		}
	}
	return templateRefusal(TemplatesOf(row).Check())
}

func templateRefusal(err error) error {
	var wrong *template.Error
	if errors.As(err, &wrong) {
		return refusal.Invalid(wrong.Field, "The template is not valid: "+wrong.Err.Error()+".")
	}
	return err
}
