package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// Slack is the incoming webhook of Slack, with text in its markup, blocks and attachments, also at Discord's address for
// it (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
func Slack() Protocol {
	return slackShaped("slack", format.Mrkdwn, "/hook/slack/{token}", "/services/{team}/{bot}/{token}", "/api/webhooks/{id}/{token}/slack")
}

// Mattermost is the incoming webhook of Mattermost and Rocket.Chat: the shape of Slack's with text in Markdown
// (https://developers.mattermost.com/integrate/webhooks/incoming).
func Mattermost() Protocol {
	p := slackShaped("mattermost", fromMarkdown, "/hooks/{token}", "/hooks/{id}/{token}")
	parse := p.Parse
	p.Parse = func(r *Request, app App) (Parsed, error) {
		var in slackMessage
		if err := DecodeHook(r, &in); err == nil && len(in.Blocks)+len(in.Attachments) == 0 && strings.TrimSpace(in.Text) != "" {
			return Parsed{Drafts: []post.Draft{{Content: post.Content{Body: in.Text}}}}, nil
		}
		return parse(r, app)
	}
	return p
}

// fromMarkdown returns the HTML of a text in Markdown, without the tags of a paragraph around it if it is only one.
func fromMarkdown(s string) string {
	html, _ := format.Body(format.Markdown, s)
	inside, found := strings.CutPrefix(html, "<p>")
	if inside, closed := strings.CutSuffix(inside, "</p>"); found && closed && !strings.Contains(inside, "<p>") {
		return inside
	}
	return html
}

func slackShaped(name string, render func(string) string, paths ...string) Protocol {
	return Protocol{
		Name:   name,
		Routes: PostAt(paths...),
		Token:  Token,
		Parse: func(r *Request, _ App) (Parsed, error) {
			var in slackMessage
			if err := DecodeHook(r, &in); err != nil {
				return Parsed{}, err
			}
			d, err := in.draft(render)
			return Parsed{Drafts: []post.Draft{d}}, err
		},
		Reply: func(w http.ResponseWriter, _ Result) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, "ok") // clients compare it
		},
		Fail: failSlack,
	}
}

// failSlack answers with one word, as Slack does. A word that Slack doesn't have is the kind of the refusal.
func failSlack(w http.ResponseWriter, err error) {
	kind := refusal.KindOf(err)
	status, word := request.Status(kind), string(kind)
	var refused *refusal.Error
	switch {
	case kind == refusal.KindUnauthorized:
		status, word = http.StatusForbidden, "invalid_token"
	case kind == refusal.KindForbidden:
		word = "action_prohibited"
	case kind == refusal.KindInvalid && errors.As(err, &refused) && refused.Field == "message":
		word = "no_text"
	case kind == refusal.KindInvalid:
		word = "invalid_payload"
	}
	request.RefusalHeaders(w, err)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, word)
}

type slackMessage struct {
	Text        string            `json:"text"`
	Blocks      []slackBlock      `json:"blocks"`
	Attachments []slackAttachment `json:"attachments"`
}

// maxSlackParts bounds the blocks, attachments and elements of a message together. Slack allows 50 blocks and 20
// attachments.
const maxSlackParts = 500

type slackAttachment struct {
	Fallback  string       `json:"fallback"`
	Pretext   string       `json:"pretext"`
	Author    string       `json:"author_name"`
	Title     string       `json:"title"`
	TitleLink string       `json:"title_link"`
	Text      string       `json:"text"`
	Fields    []slackField `json:"fields"`
	ImageURL  string       `json:"image_url"`
	Footer    string       `json:"footer"`
	Blocks    []slackBlock `json:"blocks"`
	Actions   []struct {
		Text string `json:"text"`
		URL  string `json:"url"`
	} `json:"actions"`
}

type slackField struct {
	Title string    `json:"title"`
	Value slackText `json:"value"`
}

// slackText is a text object or, in older shapes, a bare string or number.
type slackText struct {
	Type string
	Text string
}

// UnmarshalJSON reads either form.
func (t *slackText) UnmarshalJSON(raw []byte) error {
	var object struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &object) == nil {
		t.Type, t.Text = object.Type, object.Text
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	t.Text = s
	return nil
}

type slackBlock struct {
	Type      string          `json:"type"`
	Text      slackText       `json:"text"`
	Fields    []slackText     `json:"fields"`
	Elements  json.RawMessage `json:"elements"` // pieces of text, or cards
	Accessory *slackElement   `json:"accessory"`
	Title     slackText       `json:"title"`
	ImageURL  string          `json:"image_url"`
	AltText   string          `json:"alt_text"`

	// Of tables, cards, containers, videos and tasks.
	Rows        [][]slackCell  `json:"rows"`
	RichTitle   *slackBlock    `json:"rich_text_title"`
	TitleURL    string         `json:"title_url"`
	VideoURL    string         `json:"video_url"`
	Author      string         `json:"author_name"`
	Provider    string         `json:"provider_name"`
	Subtitle    slackText      `json:"subtitle"`
	Body        slackText      `json:"body"`
	Description slackText      `json:"description"`
	Subtext     slackText      `json:"subtext"`
	Hero        *slackElement  `json:"hero_image"`
	Actions     []slackElement `json:"actions"`
	Children    []slackBlock   `json:"child_blocks"`
	Tasks       []slackBlock   `json:"tasks"`
	Details     *slackBlock    `json:"details"`
	Output      *slackBlock    `json:"output"`
	Sources     []slackSource  `json:"sources"`
}

// slackElement is an element of a context, of actions or of rich text, which nests.
type slackElement struct {
	Type     string         `json:"type"`
	Text     slackText      `json:"text"`
	URL      string         `json:"url"`
	Name     string         `json:"name"`
	Range    string         `json:"range"`
	UserID   string         `json:"user_id"`
	Style    slackStyle     `json:"style"`
	Elements []slackElement `json:"elements"`
	ImageURL string         `json:"image_url"`
	AltText  string         `json:"alt_text"`

	// Of rich text.
	ChannelID string `json:"channel_id"`
	GroupID   string `json:"usergroup_id"`
	Value     string `json:"value"` // of a color
	Fallback  string `json:"fallback"`
	Timestamp int64  `json:"timestamp"`
}

// slackStyle is the style of a piece of rich text, or the kind of a list.
type slackStyle struct {
	Bold, Italic, Strike, Code bool
	List                       string
}

// UnmarshalJSON reads either form. Styles of other elements, such as a button's, are ignored.
func (s *slackStyle) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &s.List) == nil {
		return nil
	}
	var style struct{ Bold, Italic, Strike, Code bool }
	_ = json.Unmarshal(raw, &style) // a style of an unknown form is no style
	s.Bold, s.Italic, s.Strike, s.Code = style.Bold, style.Italic, style.Strike, style.Code
	return nil
}

// slackWriter renders the parts of a message, at most maxSlackParts of them.
type slackWriter struct {
	render func(string) string // of text in the sender's markup
	parts  int
	title  string
	loud   bool // a text mentions everybody
}

// broadcast is a mention of everybody in Slack's markup, which may have a label.
var broadcast = regexp.MustCompile(`<!(?:channel|here|everyone)(?:\|[^<>]*)?>`)

func (m *slackMessage) draft(render func(string) string) (post.Draft, error) {
	w := &slackWriter{loud: broadcast.MatchString(m.Text)}
	w.render = func(text string) string {
		w.loud = w.loud || broadcast.MatchString(text)
		return render(text)
	}
	var parts []string
	if body := w.blocks(m.Blocks); body != "" {
		parts = append(parts, body) // with blocks, text is what clients without blocks show
	} else if m.Text != "" {
		parts = append(parts, render(m.Text))
	}
	for _, a := range m.Attachments {
		parts = append(parts, w.attachment(a))
	}
	if w.parts > maxSlackParts {
		return post.Draft{}, refusal.Invalid("blocks", "The message has too many blocks, attachments and elements.")
	}
	body := format.Paragraphs(parts...)
	if body == "" && w.title == "" {
		return post.Draft{}, refusal.Invalid("message", "The message has no text.")
	}
	d := post.Draft{Content: post.Content{Title: w.title, Body: body, ContentType: format.HTML}}
	if body == "" {
		d.Title, d.Body = "", format.Bold(w.title)
	}
	if w.loud {
		high := 1
		d.Priority = &high
	}
	return d, nil
}

func (w *slackWriter) attachment(a slackAttachment) string {
	if w.parts++; w.parts > maxSlackParts {
		return ""
	}
	lines := []string{}
	if a.Pretext != "" {
		lines = append(lines, w.render(a.Pretext))
	}
	if a.Author != "" {
		lines = append(lines, format.Text(a.Author))
	}
	if a.Title != "" {
		lines = append(lines, "<strong>"+format.Link(format.Line(a.Title, 500), a.TitleLink)+"</strong>")
	}
	if a.Text != "" {
		lines = append(lines, w.render(a.Text))
	}
	lines = append(lines, w.blocks(a.Blocks))
	for _, f := range a.Fields {
		lines = append(lines, w.field(f))
	}
	if a.ImageURL != "" {
		lines = append(lines, format.Link("Image", a.ImageURL))
	}
	for _, action := range a.Actions {
		if action.URL != "" {
			lines = append(lines, format.Link(action.Text, action.URL))
		}
	}
	if a.Footer != "" {
		lines = append(lines, format.Text(a.Footer))
	}
	if out := format.Lines(lines...); out != "" {
		return out
	}
	return format.Text(a.Fallback)
}

func (w *slackWriter) field(f slackField) string {
	w.parts++
	value := w.render(f.Value.Text)
	switch {
	case f.Title == "":
		return value
	case value == "":
		return format.Bold(format.Line(f.Title, 200))
	}
	return format.Bold(format.Line(f.Title, 200)+":") + " " + value
}

// blocks renders Block Kit (https://docs.slack.dev/reference/block-kit/blocks). The first header is the title.
func (w *slackWriter) blocks(blocks []slackBlock) string {
	var lines []string
	for _, b := range blocks {
		lines = append(lines, w.block(b, 0))
	}
	if w.parts > maxSlackParts {
		return ""
	}
	return format.Lines(lines...)
}

func (w *slackWriter) block(b slackBlock, depth int) string {
	if w.parts++; w.parts > maxSlackParts || depth > maxSlackDepth {
		return ""
	}
	switch b.Type {
	case "header":
		if w.title != "" {
			return format.Bold(b.Text.Text)
		}
		w.title = format.Line(b.Text.Text, 500)
		return ""
	case "divider":
		return "<hr>"
	case "image":
		return format.Link(cmp.Or(b.Title.Text, b.AltText), b.ImageURL)
	case "markdown":
		return fromMarkdown(b.Text.Text)
	case "table":
		return w.table(b.Rows)
	}
	lines := []string{w.card(b, depth)} // section, context, actions, rich_text and kinds to come as well
	for _, f := range b.Fields {
		w.parts++
		lines = append(lines, w.text(f))
	}
	separator := " "
	if b.Type == "rich_text" {
		separator = ""
	}
	lines = append(lines, w.elements(b.pieces(), separator, 0))
	if b.Accessory != nil {
		lines = append(lines, w.element(*b.Accessory, 0))
	}
	return format.Lines(lines...)
}

func (w *slackWriter) text(t slackText) string {
	if t.Type == "plain_text" {
		return format.Text(t.Text)
	}
	return w.render(t.Text)
}

// maxSlackDepth bounds the nesting of rich text, which Slack doesn't nest deeper than lists in lists.
const maxSlackDepth = 8

func (w *slackWriter) elements(elements []slackElement, separator string, depth int) string {
	var pieces []string
	for _, e := range elements {
		if w.parts++; w.parts > maxSlackParts || depth > maxSlackDepth {
			return ""
		}
		pieces = append(pieces, w.element(e, depth))
	}
	return format.Inline(separator, pieces...)
}

func (w *slackWriter) element(e slackElement, depth int) string {
	switch e.Type {
	case "rich_text_section":
		return w.elements(e.Elements, "", depth+1)
	case "rich_text_preformatted":
		return "<pre><code>" + w.elements(e.Elements, "", depth+1) + "</code></pre>"
	case "rich_text_quote":
		return "<blockquote>" + w.elements(e.Elements, "", depth+1) + "</blockquote>"
	case "rich_text_list":
		tag := "ul"
		if e.Style.List == "ordered" {
			tag = "ol"
		}
		items := w.elements(e.Elements, "</li><li>", depth+1)
		return "<" + tag + "><li>" + items + "</li></" + tag + ">"
	case "link":
		return format.Link(e.Text.Text, e.URL)
	case "emoji":
		return ":" + format.Text(e.Name) + ":"
	case "user":
		return "@" + format.Text(e.UserID)
	case "channel":
		return "#" + format.Text(e.ChannelID)
	case "usergroup":
		return "@" + format.Text(e.GroupID)
	case "color":
		return format.Code(format.Line(e.Value, 40))
	case "date":
		return e.date()
	case "broadcast":
		w.loud = true
		return "@" + format.Text(e.Range)
	case "button":
		if e.URL == "" {
			return ""
		}
		return format.Link(e.Text.Text, e.URL)
	case "image":
		return format.Link(e.AltText, e.ImageURL)
	case "text":
		return e.Style.around(strings.ReplaceAll(format.Escape(e.Text.Text), "\n", "<br>"))
	case "mrkdwn":
		return w.render(e.Text.Text)
	}
	return format.Text(e.Text.Text)
}

func (s slackStyle) around(html string) string {
	for _, style := range []struct {
		on  bool
		tag string
	}{{s.Code, "code"}, {s.Strike, "del"}, {s.Italic, "em"}, {s.Bold, "strong"}} {
		if style.on && html != "" {
			html = "<" + style.tag + ">" + html + "</" + style.tag + ">"
		}
	}
	return html
}
