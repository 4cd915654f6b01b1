package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
)

// Alertmanager is Alertmanager's webhook, version 4 (https://prometheus.io/docs/alerting/latest/configuration/#webhook_config):
// a report of each alert that starts, changes or ends.
func Alertmanager() protocol.Protocol {
	return protocol.Protocol{
		Name: "alertmanager", Routes: hook("alertmanager"), Token: protocol.Token, Events: true,
		Parse: parseAlerts, Reply: reply, Fail: failLater,
	}
}

// Grafana is the webhook of Grafana's alerting, which has the shape of Alertmanager's. With a webhook secret the request
// must be signed (https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/).
func Grafana() protocol.Protocol {
	return protocol.Protocol{
		Name: "grafana", Routes: withMethod(hook("grafana"), http.MethodPut), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, app protocol.App) (protocol.Parsed, error) {
			if err := checkGrafana(r, app); err != nil {
				return protocol.Parsed{}, err
			}
			b, err := parseAlerts(r, app)
			if errors.Is(err, errNoAlerts) { // the body is a template of the user's, or Grafana's older alerting
				return parseGeneric(r, format.Plain, true)
			}
			return b, err
		},
		Reply: reply, Fail: failLater,
	}
}

type alerts struct {
	Entries     []json.RawMessage `json:"alerts"`
	Alerts      []alertReport     `json:"-"` // the entries, decoded
	ExternalURL string            `json:"externalURL"`
	GroupKey    string            `json:"groupKey"`
	GroupLabels map[string]string `json:"groupLabels"`
	Truncated   int               `json:"truncatedAlerts"`

	// Grafana's. By default both say in other words what the alerts do.
	Title   string `json:"title"`
	Message string `json:"message"`
}

type alertReport struct {
	Status       string            `json:"status"` // firing, resolved
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     string            `json:"startsAt"` // RFC 3339
	EndsAt       string            `json:"endsAt"`   // the year 1 while it fires
	GeneratorURL string            `json:"generatorURL"`
	Fingerprint  string            `json:"fingerprint"`

	// Grafana's.
	SilenceURL   string `json:"silenceURL"`
	DashboardURL string `json:"dashboardURL"`
	PanelURL     string `json:"panelURL"`
	ImageURL     string `json:"imageURL"`

	Values      map[string]json.RawMessage `json:"values"` // numbers, perhaps in quotes
	ValueString string                     `json:"valueString"`
}

var errNoAlerts = refusal.Invalid("alerts", "The body has no alerts.")

func alertsOf(r *protocol.Request) (in alerts, err error) {
	if err := protocol.DecodeHook(r, &in); err != nil {
		return alerts{}, err
	}
	switch {
	case in.Entries == nil:
		return in, errNoAlerts
	case len(in.Entries) > maxEvents:
		return alerts{}, &refusal.Error{Kind: refusal.KindTooLarge, Field: "alerts", Message: fmt.Sprintf("A request may have %d alerts.", maxEvents)}
	}
	in.Alerts = make([]alertReport, len(in.Entries))
	for i, entry := range in.Entries {
		if err := protocol.DecodeObject(entry, &in.Alerts[i]); err != nil {
			return alerts{}, &refusal.Error{Kind: refusal.KindInvalid, Field: "alerts", Message: fmt.Sprintf("Alert %d is not an object: %v.", i, err)}
		}
	}
	return in, nil
}

func parseAlerts(r *protocol.Request, app protocol.App) (b protocol.Parsed, err error) {
	in, err := alertsOf(r)
	for _, a := range in.Alerts {
		d := a.draft(in.ExternalURL)
		if app.CriticalRetry > 0 && a.critical() && !a.resolved() {
			*d.Priority, d.Retry = post.MaxPriority, app.CriticalRetry
		}
		if in.GroupKey != "" || len(in.Alerts) > maxAlone {
			sum := sha256.Sum256([]byte(in.GroupKey))
			d.Group = hex.EncodeToString(sum[:16])
		}
		b.Drafts = append(b.Drafts, d)
	}
	in.addOwn(b.Drafts)
	in.addWhole(&b, app)
	if len(b.Drafts) > 0 {
		in.addTruncated(&b.Drafts[0])
		if last := &b.Drafts[len(b.Drafts)-1]; last.Crowd >= post.CrowdWhole {
			in.addTruncated(last)
		}
	}
	return b, err
}

var (
	defaultTitle = regexp.MustCompile(`^\[(FIRING|RESOLVED)\b`)
	defaultText  = regexp.MustCompile(`^\s*\*\*(Firing|Resolved)\*\*`)
)

// ownTitle returns the title that the user of Grafana wrote; "" without one.
func (in *alerts) ownTitle() string {
	if strings.TrimSpace(in.Title) == "" || defaultTitle.MatchString(in.Title) {
		return ""
	}
	return format.Line(in.Title, 500)
}

// ownText returns the HTML of the text that the user of Grafana wrote; "" without one.
func (in *alerts) ownText() string {
	if strings.TrimSpace(in.Message) == "" || defaultText.MatchString(in.Message) {
		return ""
	}
	return format.Text(format.Cut(in.Message, maxDump))
}

// addOwn adds what the user of Grafana wrote about all alerts to the message of the first, and the title to all.
func (in *alerts) addOwn(drafts []post.Draft) {
	for i := range drafts {
		d := &drafts[i]
		if own := in.ownTitle(); own != "" {
			d.Title = own
		}
		if own := in.ownText(); own != "" && i == 0 {
			d.Body = format.Paragraphs(own) + d.Body
		}
	}
}

var severities = map[string]int{"critical": 1, "page": 1, "warning": 0, "": 0, "info": -1, "none": -1}

const maxLabels = 50

func (a *alertReport) draft(server string) post.Draft {
	name := firstOf(a.first("summary", "title", "alertname"), "Alert")
	title, priority := "Firing: ", severities[strings.ToLower(a.Labels["severity"])]
	details := []string{}
	if a.resolved() {
		title, priority = "Resolved: ", min(priority, 0)
	}
	if text := a.first("description", "message"); text != "" && text != name {
		details = append(details, format.Text(text))
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		if len(labels) < maxLabels && !strings.HasPrefix(key, "__") {
			labels = append(labels, format.Code(format.Line(key+"="+a.Labels[key], 200)))
		}
	}
	d := html(title+format.Line(name, 500), format.Paragraphs(append(details, a.values(), format.Inline(" ", labels...), format.Inline(" · ", a.links(server)...))...), priority)
	if d.Body == "" {
		d.Body = format.Text(a.Status)
	}
	return a.report(d)
}

// values returns the HTML of what Grafana measured.
func (a *alertReport) values() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(a.Values)) {
		value := strings.Trim(string(a.Values[name]), `"`)
		if _, err := strconv.ParseFloat(value, 64); err == nil && len(list) < maxLabels {
			list = append(list, format.Code(format.Line(name+"="+value, 200)))
		}
	}
	if len(list) == 0 && a.ValueString != "" {
		return format.Text(format.Cut(a.ValueString, 500))
	}
	return format.Inline(" ", list...)
}

// report makes a draft a report of the alert.
func (a *alertReport) report(d post.Draft) post.Draft {
	d.Key, d.Change, d.Began = a.key(), post.Update, timeOf(a.StartsAt)
	if a.resolved() {
		d.Change, d.EventAt = post.Resolve, timeOf(a.EndsAt)
	}
	return d
}

// critical reports whether people should be woken up.
func (a *alertReport) critical() bool {
	severity := strings.ToLower(a.Labels["severity"])
	return severity == "critical" || severity == "page"
}

func (a *alertReport) resolved() bool { return a.Status == "resolved" }

// timeOf reads a time; the zero time if it is none, or Alertmanager's year 1.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 {
		return time.Time{}
	}
	return t
}

// first returns the first annotation or label of these names that isn't empty.
func (a *alertReport) first(names ...string) string {
	for _, name := range names {
		for _, values := range []map[string]string{a.Annotations, a.Labels} {
			if values[name] != "" {
				return values[name]
			}
		}
	}
	return ""
}

func (a *alertReport) links(server string) (links []string) {
	add := func(label, target string) {
		if format.IsWeb(target) {
			links = append(links, format.Link(label, target))
		}
	}
	add("Source", a.GeneratorURL)
	add("Runbook", a.Annotations["runbook_url"])
	if a.DashboardURL != "" {
		add("Dashboard", a.DashboardURL)
	} else {
		add("Dashboard", a.Annotations["dashboard_url"])
	}
	add("Panel", a.PanelURL)
	add("Image", a.ImageURL)
	if a.resolved() {
		return links
	}
	if a.SilenceURL != "" {
		add("Silence", a.SilenceURL)
	} else if server != "" {
		filter := strings.ReplaceAll(url.QueryEscape(matchers(a.Labels)), "+", "%20") // the page takes a plus literally
		add("Silence", strings.TrimSuffix(server, "/")+"/#/silences/new?filter="+filter)
	}
	return links
}

// matchers returns the labels as Alertmanager's pages write them.
func matchers(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value, _ := json.Marshal(labels[name]) // a string always encodes
		list = append(list, name+"="+string(value))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// key names the alert.
func (a *alertReport) key() string {
	if keyForm.MatchString(a.Fingerprint) {
		return "alert:" + a.Fingerprint
	}
	sum := sha256.Sum256([]byte(matchers(a.Labels)))
	return "alert:" + hex.EncodeToString(sum[:])
}
