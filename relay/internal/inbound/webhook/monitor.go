package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"slipway/relay/internal/fields"
	"slipway/relay/internal/format"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/refusal"
)

// UptimeKuma is the webhook of Uptime Kuma, as JSON or as a form with the field data.
func UptimeKuma() inbound.Protocol {
	return inbound.Protocol{
		Name: "uptimekuma", Routes: withMethod(hook("uptimekuma"), http.MethodGet), Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) {
			if r.Method == http.MethodGet {
				return parseQuery(r)
			}
			in, err := kumaEventOf(r)
			if err != nil {
				return inbound.Batch{}, err
			}
			if in.Heartbeat == nil && in.Monitor == nil && in.Msg == "" && len(r.Body) > len("{}") { // the body is one of the user's own
				return parseGeneric(r, format.Plain, true)
			}
			d, err := in.draft()
			return one(d), err
		},
		Reply: reply, Fail: failLater,
	}
}

type kumaEvent struct {
	Heartbeat *struct {
		Status int    `json:"status"` // 0 down, 1 up, 2 pending, 3 maintenance
		Msg    string `json:"msg"`
		Time   string `json:"time"`
	} `json:"heartbeat"`
	Monitor *struct {
		ID   json.Number `json:"id"`
		Name string      `json:"name"`
		URL  string      `json:"url"`
	} `json:"monitor"`
	Msg string `json:"msg"`
}

func kumaEventOf(r *inbound.Request) (in kumaEvent, err error) {
	if fields.IsJSON(r.Body) {
		return in, inbound.DecodeHook(r, &in)
	}
	err = fields.Each(r.Header.Get("Content-Type"), r.Body, func(name string, v fields.Value) error {
		text, err := v.Text(name)
		if name == "data" && text != nil && json.Unmarshal([]byte(*text), &in) != nil {
			return refusal.Invalid("data", "The field data is not the JSON of Uptime Kuma.")
		}
		return err
	})
	return in, err
}

func (e *kumaEvent) draft() (inbound.Draft, error) {
	if e.Heartbeat == nil || e.Monitor == nil {
		if e.Msg == "" {
			return inbound.Draft{}, refusal.Invalid("msg", "The body has neither a heartbeat nor a message.")
		}
		return inbound.Draft{Message: e.Msg, ContentType: format.Plain}, nil // a test, or a certificate that expires
	}
	state, priority := "changed", 0
	switch e.Heartbeat.Status {
	case 0:
		state, priority = "is down", 1
	case 1:
		state = "is up"
	case 2:
		state = "is pending"
	case 3:
		state = "is in maintenance"
	}
	d := html(markup.Line(e.Monitor.Name, 200)+" "+state, markup.Lines(markup.Text(firstOf(e.Heartbeat.Msg, e.Msg, state)), webLink(e.Monitor.URL)), priority)
	if e.Monitor.ID != "" {
		d.Key, d.Change = "monitor:"+markup.Line(e.Monitor.ID.String(), 100), intake.Update
		if e.Heartbeat.Status == 1 {
			d.Change = intake.Resolve
		}
	}
	if e.Heartbeat.Time != "" && e.Monitor.ID != "" {
		d.IdempotencyKey = deliveryKey("uptimekuma", "", fmt.Appendf(nil, "%q %q %d", e.Monitor.ID, e.Heartbeat.Time, e.Heartbeat.Status))
	}
	return d, nil
}

func webLink(target string) string {
	if !markup.IsWeb(target) || target == "https://" {
		return ""
	}
	return markup.Link("", target)
}

// Healthchecks is the webhook of healthchecks.io with the body
// {"name": $NAME_JSON, "status": "$STATUS", "code": "$CODE", "now": "$NOW", "tags": "$TAGS"}. Other bodies are shown as
// [Generic] shows them.
func Healthchecks() inbound.Protocol {
	p := inbound.Protocol{Name: "healthchecks", Routes: hook("healthchecks"), Token: inbound.Token, Events: true, Reply: reply, Fail: failLater}
	p.Parse = func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) {
		var in struct {
			Name   string `json:"name"`
			Status string `json:"status"`
			Code   string `json:"code"`
			Now    string `json:"now"`
			Tags   string `json:"tags"`
		}
		if !fields.IsJSON(r.Body) || json.Unmarshal(r.Body, &in) != nil || in.Name == "" || in.Status == "" {
			return parseGeneric(r, format.Plain, true)
		}
		priority := 0
		if in.Status == "down" {
			priority = 1
		}
		text := "The check " + markup.Bold(markup.Line(in.Name, 200)) + " is " + markup.Escape(in.Status) + "."
		if in.Tags != "" {
			text = markup.Lines(text, markup.Text("Tags: "+in.Tags))
		}
		d := html(markup.Line(in.Name, 200)+" is "+markup.Line(in.Status, 20), text, priority)
		d.Key, d.Change = "check:"+markup.Line(firstOf(in.Code, in.Name), 200), intake.Update
		if in.Status == "up" {
			d.Change = intake.Resolve
		}
		if in.Code != "" && in.Now != "" {
			d.IdempotencyKey = deliveryKey("healthchecks", "", fmt.Appendf(nil, "%q %q %q", in.Code, in.Now, in.Status))
		}
		return one(d), nil
	}
	return p
}

// Servarr is the webhook of Sonarr, Radarr and their relatives (https://wiki.servarr.com/sonarr/settings#connections).
func Servarr() inbound.Protocol {
	return inbound.Protocol{
		Name: "servarr", Routes: withMethod(append(hook("sonarr"), hook("radarr")...), http.MethodPut), Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, _ inbound.App) (inbound.Batch, error) {
			var in servarrEvent
			if err := inbound.DecodeHook(r, &in); err != nil {
				return inbound.Batch{}, err
			}
			if in.Event == "" {
				return inbound.Batch{}, refusal.Invalid("eventType", "The body has no eventType.")
			}
			return one(in.draft()), nil
		},
		Reply: reply, Fail: httprequest.WriteError,
	}
}

type servarrEvent struct {
	Event    string       `json:"eventType"`
	Instance string       `json:"instanceName"`
	Series   servarrTitle `json:"series"`
	Movie    servarrTitle `json:"movie"`
	Episodes []struct {
		Season int    `json:"seasonNumber"`
		Number int    `json:"episodeNumber"`
		Title  string `json:"title"`
	} `json:"episodes"`
	Release struct {
		Title   string `json:"releaseTitle"`
		Quality string `json:"quality"`
		Indexer string `json:"indexer"`
	} `json:"release"`
	Level   string `json:"level"`
	Message string `json:"message"`
	Upgrade bool   `json:"isUpgrade"`
}

type servarrTitle struct {
	Title string `json:"title"`
	Year  int    `json:"year"`
}

// maxEpisodes is how many episodes a message lists.
const maxEpisodes = 10

func (e *servarrEvent) draft() inbound.Draft {
	name := firstOf(e.Series.Title, e.Movie.Title, e.Instance, "Sonarr or Radarr")
	verb, priority := map[string]string{
		"Grab": "grabbed", "Download": "downloaded", "MovieDelete": "deleted", "SeriesDelete": "deleted", "EpisodeFileDelete": "file deleted", "MovieFileDelete": "file deleted",
		"Rename": "renamed", "SeriesAdd": "added", "MovieAdded": "added", "Health": "health issue", "HealthRestored": "health restored", "ApplicationUpdate": "updated",
		"ManualInteractionRequired": "needs your attention", "Test": "test",
	}[e.Event], 0
	if verb == "" {
		verb = strings.ToLower(e.Event)
	}
	if e.Event == "Download" && e.Upgrade {
		verb = "upgraded"
	}
	if e.Event == "Health" && e.Level == "error" || e.Event == "ManualInteractionRequired" {
		priority = 1
	}
	lines := []string{markup.Text(e.Message)}
	for i, episode := range e.Episodes {
		if i == maxEpisodes {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Episodes)-maxEpisodes))
			break
		}
		lines = append(lines, markup.Escape(fmt.Sprintf("S%02dE%02d %s", episode.Season, episode.Number, episode.Title)))
	}
	if e.Release.Title != "" {
		lines = append(lines, markup.Code(markup.Line(e.Release.Title, 300)))
	}
	if detail := markup.Inline(", ", markup.Escape(e.Release.Quality), markup.Escape(e.Release.Indexer)); detail != "" {
		lines = append(lines, detail)
	}
	d := html(markup.Line(name, 200)+": "+markup.Line(verb, 100), markup.Lines(lines...), priority)
	if d.Message == "" {
		d.Message = markup.Escape(markup.Line(verb, 100))
	}
	return d
}
