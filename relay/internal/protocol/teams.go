package protocol

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Teams is Microsoft Teams' webhook: adaptive cards as workflows take them, with the token in the query as sig, and the
// older message cards (https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using).
func Teams() Protocol {
	return Protocol{
		Name:   "teams",
		Routes: PostAt("/hook/teams/{token}", "/workflows/{workflow}/triggers/manual/paths/invoke"),
		Token: func(r *Request) (string, error) {
			t := tokensOf(r.Request)
			t.add(r.Path["token"])
			t.add(r.URL.Query().Get("sig"))
			return t.one()
		},
		Parse: func(r *Request, _ App) (Parsed, error) {
			var in teamsMessage
			if err := DecodeHook(r, &in); err != nil {
				return Parsed{}, err
			}
			d, err := in.draft()
			return Parsed{Drafts: []post.Draft{d}, Answer: in.isOld()}, err
		},
		Reply: replyTeams,
		Fail:  request.WriteError,
	}
}

type teamsMessage struct {
	// A workflow's message.
	Attachments []struct {
		Content teamsElement `json:"content"`
	} `json:"attachments"`
	teamsElement // a card without the message around it

	// A message card.
	Sections []struct {
		Title    string      `json:"activityTitle"`
		Subtitle string      `json:"activitySubtitle"`
		Heading  string      `json:"title"`
		Text     string      `json:"text"`
		Facts    []teamsFact `json:"facts"`
	} `json:"sections"`
	PotentialAction []struct {
		Name    string `json:"name"`
		Targets []struct {
			URI string `json:"uri"`
		} `json:"targets"`
		Target []string `json:"target"` // of the older ViewAction
	} `json:"potentialAction"`
	Summary string `json:"summary"`
}

// teamsElement is an adaptive card or an element of one (https://adaptivecards.io/explorer).
type teamsElement struct {
	Type    string          `json:"type"`
	Title   string          `json:"title"`
	Text    string          `json:"text"`
	Style   string          `json:"style"`
	URL     string          `json:"url"`
	AltText string          `json:"altText"`
	Facts   []teamsFact     `json:"facts"`
	Body    []teamsElement  `json:"body"`
	Items   []teamsElement  `json:"items"`
	Columns []teamsElement  `json:"columns"`
	Rows    []teamsElement  `json:"rows"`
	Cells   []teamsElement  `json:"cells"`
	Images  []teamsElement  `json:"images"`
	Code    string          `json:"codeSnippet"`
	Inlines json.RawMessage `json:"inlines"`
	Actions []struct {
		Title string `json:"title"`
		URL   string `json:"url"`
	} `json:"actions"`
}

type teamsFact struct {
	Title string `json:"title"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// isOld reports whether a message is a message card.
func (m *teamsMessage) isOld() bool {
	return len(m.Attachments) == 0 && m.Type != "AdaptiveCard" && m.Type != "message"
}

// replyTeams answers as the server that the form of the message is made for: old connectors with 200 and 1, workflows with 202. Senders
// compare that, and repeat the message.
func replyTeams(w http.ResponseWriter, res Result) {
	if old, _ := res.Answer.(bool); !old {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "1")
}

const (
	maxCardParts = 500 // elements and facts of a message
	maxCardDepth = 16
)

type teamsWriter struct {
	parts int
	lines []string
}

func (m *teamsMessage) draft() (post.Draft, error) {
	w := &teamsWriter{}
	d := post.Draft{Content: post.Content{ContentType: format.HTML}}
	if m.Type == "AdaptiveCard" {
		w.element(m.teamsElement, 0)
	} else {
		if m.Title != "" {
			d.Title = format.Line(m.Title, 500)
		}
		if m.Text != "" {
			w.add(fromMarkdown(m.Text))
		}
	}
	for _, a := range m.Attachments {
		w.element(a.Content, 0)
	}
	for _, s := range m.Sections {
		for _, heading := range []string{s.Heading, s.Title} {
			if heading != "" {
				w.add("<strong>" + fromMarkdown(heading) + "</strong>")
			}
		}
		if s.Subtitle != "" {
			w.add(fromMarkdown(s.Subtitle))
		}
		if s.Text != "" {
			w.add(fromMarkdown(s.Text))
		}
		w.facts(s.Facts)
	}
	for _, a := range m.PotentialAction {
		for _, t := range a.Targets {
			w.add(format.Link(a.Name, t.URI))
		}
		for _, t := range a.Target {
			w.add(format.Link(a.Name, t))
		}
	}
	d.Body = format.Lines(w.lines...)
	if d.Body == "" {
		d.Body = format.Text(m.Summary)
	}
	switch {
	case w.parts > maxCardParts:
		return post.Draft{}, refusal.Invalid("attachments", "The card has too many elements.")
	case d.Body == "" && d.Title == "":
		return post.Draft{}, refusal.Invalid("attachments", "The card has no text.")
	case d.Body == "":
		d.Title, d.Body = "", format.Bold(d.Title)
	}
	return d, nil
}

func (w *teamsWriter) add(line string) {
	if w.parts++; w.parts <= maxCardParts {
		w.lines = append(w.lines, line)
	}
}

func (w *teamsWriter) facts(facts []teamsFact) {
	for _, f := range facts {
		w.add(format.Bold(format.Line(f.Title+f.Name, 200)+":") + " " + fromMarkdown(f.Value))
	}
}

func (w *teamsWriter) element(e teamsElement, depth int) {
	if depth > maxCardDepth || w.parts > maxCardParts {
		return
	}
	if e.Type == "Table" {
		w.table(e, depth)
		return
	}
	switch {
	case e.Type == "TextBlock" && (e.Style == "heading"):
		w.add("<strong>" + fromMarkdown(e.Text) + "</strong>")
	case e.Type == "Image":
		w.add(format.Link(e.AltText, e.URL))
	case e.Type == "CodeBlock" && e.Code != "":
		w.add("<pre><code>" + format.Escape(e.Code) + "</code></pre>")
	case e.Text != "":
		w.add(fromMarkdown(mentions.Replace(e.Text)))
	}
	w.inlines(e.Inlines)
	w.facts(e.Facts)
	for _, children := range [][]teamsElement{e.Body, e.Items, e.Columns, e.Images} {
		for _, child := range children {
			w.element(child, depth+1)
		}
	}
	for _, a := range e.Actions {
		if a.URL != "" {
			w.add(format.Link(a.Title, a.URL))
		}
	}
}

// mentions shows the people that a text names. Whom they are is in another part of the card.
var mentions = strings.NewReplacer("<at>", "@", "</at>", "")

// table adds a Table as one part, its cells with the lines of what they hold.
func (w *teamsWriter) table(e teamsElement, depth int) {
	var b strings.Builder
	for _, row := range e.Rows {
		b.WriteString("<tr>")
		for _, c := range row.Cells {
			cell := &teamsWriter{parts: w.parts}
			cell.element(c, depth+1)
			w.parts = cell.parts
			b.WriteString("<td>" + format.Lines(cell.lines...) + "</td>")
		}
		b.WriteString("</tr>")
	}
	if b.Len() > 0 {
		w.add("<table>" + b.String() + "</table>")
	}
}

// inlines adds the text of a RichTextBlock: strings and text runs.
func (w *teamsWriter) inlines(raw json.RawMessage) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	var b strings.Builder
	for _, item := range list {
		var run struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(item, &run.Text) == nil || json.Unmarshal(item, &run) == nil {
			b.WriteString(run.Text)
		}
	}
	w.add(format.Text(b.String()))
}
