package protocol

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
)

// discordComponent is a part of a message: a text, a picture or a button, or what holds others
// (https://docs.discord.com/developers/components/reference).
type discordComponent struct {
	Type       int                `json:"type"`
	Content    string             `json:"content"`
	Label      string             `json:"label"`
	URL        string             `json:"url"`
	Components []discordComponent `json:"components"`
	Accessory  *discordComponent  `json:"accessory"`
	Media      discordMedia       `json:"media"`
	File       discordMedia       `json:"file"`
	Items      []struct {
		Media       discordMedia `json:"media"`
		Description string       `json:"description"`
	} `json:"items"`
	Description string `json:"description"`
}

type discordMedia struct {
	URL string `json:"url"`
}

const (
	maxComponents     = 200 // of a message; Discord allows 40
	maxComponentDepth = 6
	discordSeparator  = 14
)

type discordWriter struct {
	parts int
	lines []string
}

func (w *discordWriter) components(all []discordComponent, depth int) {
	for _, c := range all {
		if w.parts++; w.parts > maxComponents || depth > maxComponentDepth {
			return
		}
		switch {
		case c.Content != "":
			w.lines = append(w.lines, fromMarkdown(discordText(c.Content)))
		case c.Type == discordSeparator && len(w.lines) > 0:
			w.lines = append(w.lines, "<hr>")
		case format.IsWeb(c.URL): // other buttons do nothing here
			w.lines = append(w.lines, format.Link(c.Label, c.URL))
		}
		for _, media := range []discordMedia{c.Media, c.File} {
			w.picture(c.Description, media)
		}
		for _, item := range c.Items {
			w.parts++
			w.picture(item.Description, item.Media)
		}
		w.components(c.Components, depth+1)
		if c.Accessory != nil {
			w.components([]discordComponent{*c.Accessory}, depth+1)
		}
	}
}

// picture links a picture or a file; those that come with the message are attachments.
func (w *discordWriter) picture(description string, m discordMedia) {
	if format.IsWeb(m.URL) {
		if description == "" {
			description = "Image"
		}
		w.lines = append(w.lines, format.Link(description, m.URL))
	}
}

var (
	discordTime  = regexp.MustCompile(`<t:(-?\d{1,12})(?::([tTdDfFsSR]))?>`)
	discordEmoji = regexp.MustCompile(`<a?:(\w{2,32}):\d{1,20}>`)
	listItem     = regexp.MustCompile(`^\s*(?:[-*+]|\d{1,9}[.)])\s`)
)

// discordTimes are the formats of times. Discord shows those of the reader.
var discordTimes = map[string]string{
	"t": "15:04 UTC", "T": "15:04:05 UTC", "d": "2006-01-02", "D": "2 January 2006", "f": "2 January 2006 15:04 UTC", "F": "Monday, 2 January 2006 15:04 UTC",
	"s": "2006-01-02 15:04 UTC", "S": "2006-01-02 15:04:05 UTC", "R": shownTime, "": "2 January 2006 15:04 UTC",
}

// discordText returns a text in Discord's Markdown as CommonMark: times and emoji are written out, and a line that is no item ends a list.
func discordText(s string) string {
	s = discordTime.ReplaceAllStringFunc(s, func(found string) string {
		m := discordTime.FindStringSubmatch(found)
		seconds, _ := strconv.ParseInt(m[1], 10, 64) // twelve digits
		return time.Unix(seconds, 0).UTC().Format(discordTimes[m[2]])
	})
	s = discordEmoji.ReplaceAllString(s, ":$1:")
	if !strings.Contains(s, "\n") {
		return s
	}
	var out []string
	fenced, inList := false, false
	for line := range strings.SplitSeq(s, "\n") {
		isItem := !fenced && listItem.MatchString(line)
		if inList && !isItem && !fenced && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "  ") {
			out = append(out, "")
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		inList = isItem || inList && strings.HasPrefix(line, "  ")
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
