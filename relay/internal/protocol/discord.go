package protocol

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Discord is Discord's webhook: a text in Markdown and embeds (https://docs.discord.com/developers/resources/webhook).
func Discord() Protocol {
	return Protocol{
		Name:   "discord",
		Routes: discordRoutes(),
		Token:  Token,
		Files:  true,
		Parse: func(r *Request, app App) (Parsed, error) {
			if r.Method == http.MethodGet {
				id := strconv.FormatInt(app.ID, 10)
				return Parsed{Answer: map[string]any{"id": id, "type": 1, "name": app.Name, "channel_id": id, "guild_id": id, "application_id": nil, "avatar": nil}}, nil
			}
			id, err := discordID(r)
			if err != nil || r.Method == http.MethodDelete {
				return Parsed{Withdraw: id}, err
			}
			in, err := discordMessageOf(r)
			if err != nil {
				return Parsed{}, err
			}
			if in.Content == "" && len(in.Embeds)+len(in.Components) == 0 && len(r.Files) > 0 {
				in.Content = r.FileText()
			}
			d, err := in.draft()
			d.Edits, d.Files = id, r.Files
			if thread := r.URL.Query().Get("thread_id"); thread != "" && id == 0 {
				d.Thread = "discord:" + thread
			}
			b := Parsed{Drafts: []post.Draft{d}}
			if request.IsTrue(r.URL.Query().Get("wait")) || id != 0 || len(r.Files) > 0 { // Discord waits for files in any case
				b.Answer = discordWaits{}
			}
			return b, err
		},
		Reply: replyDiscord,
		Fail:  failDiscord,
	}
}

func discordRoutes() (routes []Route) {
	for _, api := range []string{"/api", "/api/{version:v[0-9]+}"} {
		const hook = "/webhooks/{id}/{token}"
		const message = hook + "/messages/{message:[0-9]+}"
		routes = append(
			routes,
			Route{Method: http.MethodPost, Path: api + hook}, Route{Method: http.MethodGet, Path: api + hook},
			Route{Method: http.MethodPatch, Path: api + message}, Route{Method: http.MethodDelete, Path: api + message},
		)
	}
	return routes
}

// discordID returns the message that a request edits or deletes, 0 if it is about none.
func discordID(r *Request) (int64, error) {
	text := r.Path["message"]
	if text == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id == 0 {
		return 0, refusal.NotFound("message")
	}
	return id, nil
}

type discordMessage struct {
	Content string         `json:"content"`
	Flags   int            `json:"flags"`
	Embeds  []discordEmbed `json:"embeds"`

	Components []discordComponent `json:"components"`
}

type discordEmbed struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Author      struct {
		Name string `json:"name"`
		URL  string `json:"url"`
	} `json:"author"`
	Fields []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"fields"`
	Image     discordMedia `json:"image"`
	Thumbnail discordMedia `json:"thumbnail"`
	Timestamp string       `json:"timestamp"` // RFC 3339
	Footer    struct {
		Text string `json:"text"`
	} `json:"footer"`
}

const (
	maxEmbeds      = 10
	maxEmbedFields = 25
	discordSilent  = 1 << 12 // the flag SUPPRESS_NOTIFICATIONS
)

// discordMessageOf reads JSON, or a multipart form with the JSON in payload_json and the files next to it.
func discordMessageOf(r *Request) (in discordMessage, err error) {
	if request.IsJSON(r.Body) {
		return in, DecodeHook(r, &in)
	}
	err = request.Each(r.Header.Get("Content-Type"), r.Body, func(name string, v request.Value) error {
		if _, isFile := v.File(); isFile {
			return nil // it is one of the request's files
		}
		text, err := v.Text(name)
		if err != nil || text == nil {
			return err
		}
		switch name {
		case "content":
			in.Content = *text
		case "payload_json":
			if DecodeObject([]byte(*text), &in) != nil {
				return refusal.Invalid("payload_json", "The field payload_json is not the JSON of a message.")
			}
		}
		return nil
	})
	return in, err
}

func (m *discordMessage) draft() (post.Draft, error) {
	if len(m.Embeds) > maxEmbeds {
		return post.Draft{}, refusal.Invalid("embeds", "A message may have 10 embeds.")
	}
	d := post.Draft{Content: post.Content{Body: discordText(m.Content)}}
	if m.Flags&discordSilent != 0 {
		low := -1
		d.Priority = &low
	}
	w := &discordWriter{}
	w.components(m.Components, 0)
	if w.parts > maxComponents {
		return post.Draft{}, refusal.Invalid("components", "The message has too many components.")
	}
	if len(m.Embeds)+len(w.lines) > 0 {
		parts := []string{}
		if m.Content != "" {
			parts = append(parts, fromMarkdown(d.Body))
		}
		for _, e := range m.Embeds {
			if len(e.Fields) > maxEmbedFields {
				return post.Draft{}, refusal.Invalid("embeds", "An embed may have 25 fields.")
			}
			parts = append(parts, e.html())
		}
		d.Body, d.ContentType = format.Paragraphs(append(parts, format.Lines(w.lines...))...), format.HTML
	}
	if strings.TrimSpace(d.Body) == "" {
		return post.Draft{}, refusal.Invalid("content", "Cannot send an empty message")
	}
	return d, nil
}

func (e *discordEmbed) html() string {
	var lines []string
	if e.Author.Name != "" {
		lines = append(lines, format.Link(e.Author.Name, e.Author.URL))
	}
	if e.Title != "" {
		lines = append(lines, "<strong>"+format.Link(discordText(e.Title), e.URL)+"</strong>")
	}
	if e.Description != "" {
		lines = append(lines, fromMarkdown(discordText(e.Description)))
	}
	for _, f := range e.Fields {
		lines = append(lines, format.Bold(format.Line(discordText(f.Name), 256)+":")+" "+fromMarkdown(discordText(f.Value)))
	}
	if e.Image.URL != "" {
		lines = append(lines, format.Link("Image", e.Image.URL))
	}
	if e.Thumbnail.URL != "" {
		lines = append(lines, format.Link("Image", e.Thumbnail.URL))
	}
	when := ""
	if at, err := time.Parse(time.RFC3339, e.Timestamp); err == nil {
		when = at.UTC().Format(shownTime)
	}
	lines = append(lines, format.Inline(" · ", format.Text(e.Footer.Text), when))
	return format.Lines(lines...)
}

// discordWaits is the Answer of a request with wait=true, which Discord answers with the message.
type discordWaits struct{}

// replyDiscord answers with the webhook that was asked for, with the message that the sender waits for, or with 204.
func replyDiscord(w http.ResponseWriter, res Result) {
	if len(res.Messages) == 0 && res.Answer != nil {
		request.WriteJSON(w, http.StatusOK, res.Answer)
		return
	}
	if res.Answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m := res.Messages[0]
	request.WriteJSON(w, http.StatusOK, map[string]any{
		"id": strconv.FormatInt(m.ID, 10), "type": 0, "content": m.Body, "channel_id": strconv.FormatInt(m.ApplicationID, 10),
		"webhook_id": strconv.FormatInt(m.ApplicationID, 10), "timestamp": post.Time(m.AcceptedAt).Format(time.RFC3339Nano),
		"author":      map[string]any{"id": strconv.FormatInt(m.ApplicationID, 10), "username": m.Title, "bot": true, "discriminator": "0000", "avatar": nil},
		"attachments": []any{}, "embeds": []any{}, "mentions": []any{}, "mention_roles": []any{}, "components": []any{},
		"pinned": false, "tts": false, "mention_everyone": false, "edited_timestamp": nil, "flags": 0,
	})
}

// failDiscord answers with Discord's codes (https://docs.discord.com/developers/topics/opcodes-and-status-codes).
func failDiscord(w http.ResponseWriter, err error) {
	kind := refusal.KindOf(err)
	p := request.ProblemOf(err)
	out := map[string]any{"message": p.Description, "code": 0}
	switch kind {
	case refusal.KindUnauthorized:
		out["message"], out["code"] = "Invalid Webhook Token", 50027
	case refusal.KindInvalid:
		out["code"] = 50109 // the body is no valid JSON
		if p.Field != "" {
			out["code"] = 50035 // a form field is invalid
		}
		if p.Field == "content" || p.Field == "message" {
			out["code"] = 50006 // an empty message
		}
	case refusal.KindNotFound:
		out["message"], out["code"] = "Unknown Message", 10008
	case refusal.KindTooLarge:
		out["code"] = 40005
	}
	request.RefusalHeaders(w, err)
	if kind == refusal.KindRateLimited {
		seconds, _ := strconv.ParseFloat(w.Header().Get("Retry-After"), 64) // 0 if there is none
		out["retry_after"], out["global"] = seconds, false
	}
	request.WriteJSON(w, request.Status(kind), out)
}
