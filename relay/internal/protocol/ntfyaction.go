package protocol

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway/relay/internal/format"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// ntfyAction is a button of a message.
type ntfyAction struct {
	ID      string            `json:"id,omitempty"`
	Action  string            `json:"action"` // view, http, broadcast, copy
	Label   string            `json:"label"`
	Clear   bool              `json:"clear"`
	URL     string            `json:"url,omitempty"`
	Method  string            `json:"method,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
	Intent  string            `json:"intent,omitempty"`
	Extras  map[string]string `json:"extras,omitempty"`
	Value   string            `json:"value,omitempty"`
}

const maxNtfyActions = 3

// noActions refuses actions for a reason, after ntfy's sentence.
func noActions(format string, args ...any) error {
	return refusal.Invalid("actions", "invalid request: actions invalid, "+fmt.Sprintf(format, args...))
}

// ntfyActions reads actions as JSON or in the short form "view, Label, https://…; …".
func ntfyActions(s string) ([]ntfyAction, error) {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "[") {
		return ntfyActionsJSON([]byte(s))
	}
	if !utf8.ValidString(s) {
		return nil, noActions("the text is not UTF-8")
	}
	var list []ntfyAction
	for rest := s; rest != ""; {
		var a ntfyAction
		var err error
		if a, rest, err = shortAction(rest); err != nil {
			return nil, err
		}
		list = append(list, a)
		rest = strings.TrimLeft(rest, spaces)
	}
	return list, checkActions(list)
}

func ntfyActionsJSON(raw []byte) (list []ntfyAction, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := request.Unmarshal(raw, &list); err != nil {
		return nil, noActions("JSON error: %v", err)
	}
	return list, checkActions(list)
}

// checkActions checks and normalizes actions.
func checkActions(list []ntfyAction) error {
	if len(list) > maxNtfyActions {
		return noActions("only %d actions allowed", maxNtfyActions)
	}
	for i := range list {
		a := &list[i]
		a.Action, a.Method = strings.ToLower(a.Action), strings.ToUpper(a.Method)
		switch {
		case !slices.Contains([]string{"view", "http", "broadcast", "copy"}, a.Action):
			return noActions("parameter 'action' cannot be '%s', valid values are 'view', 'broadcast', 'http' and 'copy'", format.Line(a.Action, 40))
		case a.Label == "":
			return noActions("parameter 'label' is required")
		case (a.Action == "view" || a.Action == "http") && a.URL == "":
			return noActions("parameter 'url' is required for action '%s'", a.Action)
		case a.Action == "http" && (a.Method == http.MethodGet || a.Method == http.MethodHead) && a.Body != "":
			return noActions("parameter 'body' cannot be set if method is %s", a.Method)
		case a.Action == "copy" && a.Value == "":
			return noActions("parameter 'value' is required for action 'copy'")
		}
	}
	return nil
}

const spaces = " \t\r\n"

// shortAction reads the first action of the short form, which ends at a semicolon, and returns what follows it. Its sections end at
// commas. A section is a value, or a key, = and a value, and a value may be quoted.
func shortAction(s string) (a ntfyAction, rest string, err error) {
	for section := 0; ; section++ {
		key := ""
		s = strings.TrimLeft(s, spaces)
		if m := actionKey.FindStringSubmatch(s); m != nil {
			key, s = m[1], s[len(m[0]):]
		}
		value, rest, err := sectionValue(s)
		if err != nil {
			return a, "", err
		}
		if err := a.set(section, key, value); err != nil {
			return a, "", err
		}
		if rest == "" || rest[0] == ';' {
			return a, strings.TrimPrefix(rest, ";"), nil
		}
		s = rest[1:]
	}
}

var actionKey = regexp.MustCompile(`^([-.\w]+)\s*=\s*`)

// sectionValue returns the value that s begins with, without its quotes, and what follows: nothing, a comma or a semicolon and the rest.
func sectionValue(s string) (value, rest string, err error) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		end := strings.IndexAny(s, ",;")
		if end < 0 {
			end = len(s)
		}
		return strings.TrimSpace(s[:end]), s[end:], nil
	}
	quote := s[0]
	for i := 1; i < len(s); i++ {
		if s[i] != quote || s[i-1] == '\\' {
			continue
		}
		value = strings.ReplaceAll(s[1:i], `\`+string(quote), string(quote))
		rest = strings.TrimLeft(s[i+1:], spaces)
		if rest != "" && rest[0] != ',' && rest[0] != ';' {
			return "", "", noActions("unexpected text after a quoted value: %s", format.Line(rest, 40))
		}
		return value, rest, nil
	}
	return "", "", noActions("unexpected end of input, a quote is not closed")
}

// set takes a section of the short form. Only the first ones may have no key.
func (a *ntfyAction) set(section int, key, value string) error {
	switch {
	case key != "":
	case section == 0:
		key = "action"
	case section == 1:
		key = "label"
	case section == 2 && (a.Action == "view" || a.Action == "http"):
		key = "url"
	case section == 2 && a.Action == "copy":
		key = "value"
	default:
		return noActions("term '%s' unknown", format.Line(value, 40))
	}
	for prefix, into := range map[string]*map[string]string{"headers.": &a.Headers, "extras.": &a.Extras} {
		if name, found := strings.CutPrefix(key, prefix); found {
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[name] = value
			return nil
		}
	}
	switch strings.ToLower(key) {
	case "action":
		a.Action = value
	case "label":
		a.Label = value
	case "url":
		a.URL = value
	case "method":
		a.Method = value
	case "body":
		a.Body = value
	case "intent":
		a.Intent = value
	case "value":
		a.Value = value
	case "clear":
		if !slices.Contains([]string{"true", "yes", "1", "false", "no", "0"}, strings.ToLower(value)) {
			return noActions("parameter 'clear' cannot be '%s', only boolean values are allowed (true/yes/1/false/no/0)", format.Line(value, 40))
		}
		a.Clear = IsYes(value)
	default:
		return noActions("key '%s' unknown", format.Line(key, 40))
	}
	return nil
}
