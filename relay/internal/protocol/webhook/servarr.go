package webhook

import (
	"fmt"
	"net/http"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

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
