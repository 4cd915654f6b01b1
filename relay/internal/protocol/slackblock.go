package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"slipway/relay/internal/format"
)

// slackCell is a cell of a table: a text, a number or rich text.
type slackCell struct {
	Type     string          `json:"type"`
	Text     slackText       `json:"text"`
	Value    json.RawMessage `json:"value"`
	Elements []slackElement  `json:"elements"`
}

// slackSource is what a task refers to.
type slackSource struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// card renders a block with a title and what belongs to it: a card, a video, an alert, a task, and kinds to come. Blocks in it nest.
func (w *slackWriter) card(b slackBlock, depth int) string {
	var lines []string
	title, address := b.Title.Text, b.TitleURL
	if address == "" {
		address = b.VideoURL
	}
	if title != "" {
		lines = append(lines, "<strong>"+format.Link(format.Line(title, 500), address)+"</strong>")
	}
	if b.RichTitle != nil {
		lines = append(lines, w.block(*b.RichTitle, depth+1))
	}
	for _, t := range []slackText{b.Subtitle, b.Text, b.Body, b.Description, b.Subtext} {
		lines = append(lines, w.text(t))
	}
	if b.Author != "" || b.Provider != "" {
		lines = append(lines, format.Inline(", ", format.Text(b.Author), format.Text(b.Provider)))
	}
	if b.Hero != nil {
		lines = append(lines, format.Link(b.Hero.AltText, b.Hero.ImageURL))
	}
	for _, part := range []*slackBlock{b.Details, b.Output} {
		if part != nil {
			lines = append(lines, w.block(*part, depth+1))
		}
	}
	for _, s := range b.Sources {
		lines = append(lines, format.Link(s.Text, s.URL))
	}
	for _, children := range [][]slackBlock{b.Children, b.Tasks, b.cards()} {
		for _, child := range children {
			lines = append(lines, w.block(child, depth+1))
		}
	}
	lines = append(lines, w.elements(b.Actions, " ", depth+1))
	return format.Lines(lines...)
}

// cards returns the elements of a carousel.
func (b *slackBlock) cards() (all []slackBlock) {
	if b.Type == "carousel" {
		_ = json.Unmarshal(b.Elements, &all) // what is no card is none
	}
	return all
}

// pieces returns the elements of a context, of actions or of rich text.
func (b *slackBlock) pieces() (all []slackElement) {
	if len(b.Elements) > 0 && b.Type != "carousel" {
		_ = json.Unmarshal(b.Elements, &all) // a field of another form is left out
	}
	return all
}

// table renders rows of cells, of which the first are the heads.
func (w *slackWriter) table(rows [][]slackCell) string {
	var b strings.Builder
	tag := "th"
	for _, row := range rows {
		b.WriteString("<tr>")
		for _, c := range row {
			if w.parts++; w.parts > maxSlackParts {
				return ""
			}
			text := format.Text(c.Text.Text)
			if len(c.Elements) > 0 {
				text = w.elements(c.Elements, "", 1)
			} else if text == "" {
				text = format.Text(strings.Trim(string(c.Value), `"`))
			}
			b.WriteString("<" + tag + ">" + text + "</" + tag + ">")
		}
		b.WriteString("</tr>")
		tag = "td"
	}
	if b.Len() == 0 {
		return ""
	}
	return "<table>" + b.String() + "</table>"
}

// date renders a time in rich text: the words for clients that know no dates, or the time in UTC.
func (e *slackElement) date() string {
	text := e.Fallback
	if text == "" {
		text = time.Unix(e.Timestamp, 0).UTC().Format(shownTime)
	}
	return format.Link(text, e.URL)
}

// shownTime is how times of senders are shown.
const shownTime = "2006-01-02 15:04 UTC"
