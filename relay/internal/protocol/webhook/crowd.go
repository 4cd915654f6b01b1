package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/shared/plural"
)

// maxAlone is how many alerts of a group have messages of their own.
const maxAlone = 10

// addWhole adds the report of the group, which has a message if there are many alerts, and says which part each report has.
func (in *alerts) addWhole(b *protocol.Parsed, app protocol.App) {
	if len(b.Drafts) == 0 {
		return
	}
	one, whole := post.CrowdOneOfFew, post.CrowdWholeIfOpen
	if len(b.Drafts) > maxAlone {
		one, whole = post.CrowdOneOfMany, post.CrowdWhole
	}
	if whole == post.CrowdWholeIfOpen && in.GroupKey == "" {
		return
	}
	for i := range b.Drafts {
		b.Drafts[i].Crowd = one
	}
	d := in.whole(app)
	d.Crowd, d.Group, d.Key = whole, b.Drafts[0].Group, post.CrowdKey(b.Drafts[0].Group)
	b.Drafts = append(b.Drafts, d)
}

// whole returns the report of a group: each alert in a line.
func (in *alerts) whole(app protocol.App) post.Draft {
	firing, priority := 0, -2
	var first, rest []string
	for i := range in.Alerts {
		a := &in.Alerts[i]
		if a.resolved() {
			rest = append(rest, "<li>Resolved: "+a.line()+"</li>")
			continue
		}
		firing++
		priority = max(priority, severities[strings.ToLower(a.Labels["severity"])])
		first = append(first, "<li>"+a.line()+"</li>")
	}
	title := "Firing: " + plural.Of(firing, "alert")
	if firing == 0 {
		title, priority = "Resolved: "+plural.Of(len(in.Alerts), "alert"), 0
	}
	if name := in.GroupLabels["alertname"]; name != "" {
		title += " of " + format.Line(name, 200)
	}
	if own := in.ownTitle(); own != "" {
		title = own
	}
	d := html(title, format.Paragraphs(in.ownText())+"<ul>"+strings.Join(first, "")+strings.Join(rest, "")+"</ul>", priority)
	if d.Change = post.Update; firing == 0 {
		d.Change = post.Resolve
	}
	if app.CriticalRetry > 0 && slices.ContainsFunc(in.Alerts, func(a alertReport) bool { return a.critical() && !a.resolved() }) {
		*d.Priority, d.Retry = post.MaxPriority, app.CriticalRetry
	}
	return d
}

// line names an alert among others.
func (a *alertReport) line() string {
	text := format.Escape(format.Line(firstOf(a.first("summary", "title", "alertname"), "Alert"), 200))
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if name != "severity" && !strings.HasPrefix(name, "__") {
			labels = append(labels, name+"="+a.Labels[name])
		}
	}
	if len(labels) > 0 {
		text += " " + format.Code(format.Line(strings.Join(labels, " "), 200))
	}
	return text
}

// addTruncated adds the number of alerts that the sender left out.
func (in *alerts) addTruncated(d *post.Draft) {
	if in.Truncated > 0 {
		d.Body += fmt.Sprintf("<p>%s of this group left out by the sender (max_alerts).</p>", plural.Of(in.Truncated, "more alert"))
	}
}
