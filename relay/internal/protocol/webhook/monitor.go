package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// UptimeKuma is the webhook of Uptime Kuma, as JSON or as a form with the field data.
func UptimeKuma() protocol.Protocol {
	return protocol.Protocol{
		Name: "uptimekuma", Routes: withMethod(hook("uptimekuma"), http.MethodGet), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
			if r.Method == http.MethodGet {
				return parseQuery(r)
			}
			in, err := kumaEventOf(r)
			if err != nil {
				return protocol.Parsed{}, err
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
		ID   json.RawMessage `json:"id"`
		Name string          `json:"name"`
		URL  string          `json:"url"`
	} `json:"monitor"`
	Msg string `json:"msg"`
}

func kumaEventOf(r *protocol.Request) (in kumaEvent, err error) {
	if request.IsJSON(r.Body) {
		return in, protocol.DecodeHook(r, &in)
	}
	err = request.Each(r.Header.Get("Content-Type"), r.Body, func(name string, v request.Value) error {
		text, err := v.Text(name)
		if name == "data" && text != nil && protocol.DecodeObject([]byte(*text), &in) != nil {
			return refusal.Invalid("data", "The field data is not the JSON of Uptime Kuma.")
		}
		return err
	})
	return in, err
}

func (e *kumaEvent) draft() (post.Draft, error) {
	if e.Heartbeat == nil || e.Monitor == nil {
		if e.Msg == "" {
			return post.Draft{}, refusal.Invalid("msg", "The body has neither a heartbeat nor a message.")
		}
		return post.Draft{Content: post.Content{Body: e.Msg, ContentType: format.Plain}}, nil // a test, or a certificate that expires
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
	d := html(format.Line(e.Monitor.Name, 200)+" "+state, format.Lines(format.Text(firstOf(e.Heartbeat.Msg, e.Msg, state)), webLink(e.Monitor.URL)), priority)
	id := strings.Trim(string(e.Monitor.ID), `"`)
	if id == "" || id == "null" {
		return d, nil
	}
	d.Key, d.Change = "monitor:"+format.Line(id, 100), post.Update
	if e.Heartbeat.Status == 1 {
		d.Change = post.Resolve
	}
	if e.Heartbeat.Time != "" {
		d.IdempotencyKey = deliveryKey("uptimekuma", "", fmt.Appendf(nil, "%q %q %d", id, e.Heartbeat.Time, e.Heartbeat.Status))
	}
	return d, nil
}

func webLink(target string) string {
	if !format.IsWeb(target) || target == "https://" {
		return ""
	}
	return format.Link("", target)
}

// Healthchecks is the webhook of healthchecks.io with the body
// {"name": $NAME_JSON, "status": "$STATUS", "code": "$CODE", "now": "$NOW", "tags": "$TAGS"}. Other bodies are shown as
// [Generic] shows them.
func Healthchecks() protocol.Protocol {
	p := protocol.Protocol{Name: "healthchecks", Routes: withMethod(hook("healthchecks"), http.MethodPut), Token: protocol.Token, Events: true, Reply: reply, Fail: failLater}
	p.Parse = func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
		var in struct {
			Name   string `json:"name"`
			Status string `json:"status"`
			Code   string `json:"code"`
			Now    string `json:"now"`
			Tags   string `json:"tags"`
		}
		if !request.IsJSON(r.Body) || request.Unmarshal(r.Body, &in) != nil || in.Name == "" || in.Status == "" {
			return parseGeneric(r, format.Plain, true)
		}
		priority := 0
		if in.Status == "down" {
			priority = 1
		}
		text := "The check " + format.Bold(format.Line(in.Name, 200)) + " is " + format.Escape(in.Status) + "."
		if in.Tags != "" {
			text = format.Lines(text, format.Text("Tags: "+in.Tags))
		}
		d := html(format.Line(in.Name, 200)+" is "+format.Line(in.Status, 20), text, priority)
		d.Key, d.Change = "check:"+format.Line(firstOf(in.Code, in.Name), 200), post.Update
		if in.Status == "up" {
			d.Change = post.Resolve
		}
		if in.Code != "" && in.Now != "" {
			d.IdempotencyKey = deliveryKey("healthchecks", "", fmt.Appendf(nil, "%q %q %q", in.Code, in.Now, in.Status))
		}
		return one(d), nil
	}
	return p
}

// Servarr is the webhook of Sonarr, Radarr and their relatives (https://wiki.servarr.com/sonarr/settings#connections).
func Servarr() protocol.Protocol {
	return protocol.Protocol{
		Name: "servarr", Routes: withMethod(append(hook("sonarr"), hook("radarr")...), http.MethodPut), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
			var in servarrEvent
			if err := protocol.DecodeHook(r, &in); err != nil {
				return protocol.Parsed{}, err
			}
			if in.Event == "" {
				return protocol.Parsed{}, refusal.Invalid("eventType", "The body has no eventType.")
			}
			return one(in.draft()), nil
		},
		Reply: reply, Fail: request.WriteError,
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

func (e *servarrEvent) draft() post.Draft {
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
	lines := []string{format.Text(e.Message)}
	for i, episode := range e.Episodes {
		if i == maxEpisodes {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Episodes)-maxEpisodes))
			break
		}
		lines = append(lines, format.Escape(fmt.Sprintf("S%02dE%02d %s", episode.Season, episode.Number, episode.Title)))
	}
	if e.Release.Title != "" {
		lines = append(lines, format.Code(format.Line(e.Release.Title, 300)))
	}
	if detail := format.Inline(", ", format.Escape(e.Release.Quality), format.Escape(e.Release.Indexer)); detail != "" {
		lines = append(lines, detail)
	}
	d := html(format.Line(name, 200)+": "+format.Line(verb, 100), format.Lines(lines...), priority)
	if d.Body == "" {
		d.Body = format.Escape(format.Line(verb, 100))
	}
	return d
}
