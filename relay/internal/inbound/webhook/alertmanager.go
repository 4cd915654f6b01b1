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
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/format"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/intake"
	"slipway/relay/internal/markup"
	"slipway/relay/internal/message"
	"slipway/relay/internal/refusal"
)

// Alertmanager is Alertmanager's webhook, version 4 (https://prometheus.io/docs/alerting/latest/configuration/#webhook_config):
// a report of each alert that starts, changes or ends.
func Alertmanager() inbound.Protocol {
	return inbound.Protocol{
		Name: "alertmanager", Routes: hook("alertmanager"), Token: inbound.Token, Events: true,
		Parse: parseAlerts, Reply: reply, Fail: failLater,
	}
}

// Grafana is the webhook of Grafana's alerting, which has the shape of Alertmanager's. With a webhook secret the request
// must be signed (https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/).
func Grafana() inbound.Protocol {
	routes := hook("grafana")
	for _, r := range hook("grafana") {
		r.Method = http.MethodPut
		routes = append(routes, r)
	}
	return inbound.Protocol{
		Name: "grafana", Routes: routes, Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, app inbound.App) (inbound.Batch, error) {
			if err := checkHMAC(r, "X-Grafana-Alerting-Signature", "", app); err != nil {
				return inbound.Batch{}, err
			}
			b, err := parseAlerts(r, app)
			if errors.Is(err, errNoAlerts) { // the body is a template of the user's, or Grafana's older alerting
				return parseGeneric(r, format.Plain)
			}
			return b, err
		},
		Reply: reply, Fail: failLater,
	}
}

type alerts struct {
	Entries     []json.RawMessage `json:"alerts"`
	Alerts      []alert           `json:"-"` // the entries, decoded
	ExternalURL string            `json:"externalURL"`
	GroupKey    string            `json:"groupKey"`
}

type alert struct {
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
}

var errNoAlerts = refusal.Invalid("alerts", "The body has no alerts.")

func alertsOf(r *inbound.Request) (in alerts, err error) {
	if err := inbound.DecodeHook(r, &in); err != nil {
		return alerts{}, err
	}
	switch {
	case in.Entries == nil:
		return in, errNoAlerts
	case len(in.Entries) > maxEvents:
		return alerts{}, &refusal.Error{Kind: refusal.KindTooLarge, Field: "alerts", Message: fmt.Sprintf("A request may have %d alerts.", maxEvents)}
	}
	in.Alerts = make([]alert, len(in.Entries))
	for i, entry := range in.Entries {
		if err := inbound.DecodeObject(entry, &in.Alerts[i]); err != nil {
			return alerts{}, &refusal.Error{Kind: refusal.KindInvalid, Field: "alerts", Message: fmt.Sprintf("Alert %d is not an object: %v.", i, err)}
		}
	}
	return in, nil
}

func parseAlerts(r *inbound.Request, app inbound.App) (b inbound.Batch, err error) {
	in, err := alertsOf(r)
	for _, a := range in.Alerts {
		d := a.draft(in.ExternalURL)
		if app.CriticalRetry > 0 && a.critical() && !a.resolved() {
			*d.Priority, d.Retry = message.MaxPriority, app.CriticalRetry
		}
		if in.GroupKey != "" {
			sum := sha256.Sum256([]byte(in.GroupKey))
			d.Group = hex.EncodeToString(sum[:16])
		}
		b.Drafts = append(b.Drafts, d)
	}
	return b, err
}

var severities = map[string]int{"critical": 1, "page": 1, "warning": 0, "": 0, "info": -1, "none": -1}

const maxLabels = 50

func (a *alert) draft(server string) inbound.Draft {
	name := firstOf(a.first("summary", "title", "alertname"), "Alert")
	title, priority := "Firing: ", severities[strings.ToLower(a.Labels["severity"])]
	details := []string{}
	if a.resolved() {
		title, priority = "Resolved: ", min(priority, 0)
	}
	if text := a.first("description", "message"); text != "" && text != name {
		details = append(details, markup.Text(text))
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		if len(labels) < maxLabels && !strings.HasPrefix(key, "__") {
			labels = append(labels, markup.Code(markup.Line(key+"="+a.Labels[key], 200)))
		}
	}
	d := html(title+markup.Line(name, 500), markup.Paragraphs(append(details, markup.Inline(" ", labels...), markup.Inline(" · ", a.links(server)...))...), priority)
	if d.Message == "" {
		d.Message = markup.Text(a.Status)
	}
	return a.report(d)
}

// report makes a draft a report of the alert.
func (a *alert) report(d inbound.Draft) inbound.Draft {
	d.Key, d.Change, d.Began = a.key(), intake.Update, timeOf(a.StartsAt)
	if a.resolved() {
		d.Change, d.EventAt = intake.Resolve, timeOf(a.EndsAt)
	}
	return d
}

// critical reports whether people should be woken up.
func (a *alert) critical() bool {
	severity := strings.ToLower(a.Labels["severity"])
	return severity == "critical" || severity == "page"
}

func (a *alert) resolved() bool { return a.Status == "resolved" }

// timeOf reads a time; the zero time if it is none, or Alertmanager's year 1.
func timeOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 {
		return time.Time{}
	}
	return t
}

// first returns the first annotation or label of these names that isn't empty.
func (a *alert) first(names ...string) string {
	for _, name := range names {
		for _, values := range []map[string]string{a.Annotations, a.Labels} {
			if values[name] != "" {
				return values[name]
			}
		}
	}
	return ""
}

func (a *alert) links(server string) (links []string) {
	add := func(label, target string) {
		if markup.IsWeb(target) {
			links = append(links, markup.Link(label, target))
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
		add("Silence", strings.TrimSuffix(server, "/")+"/#/silences/new?filter="+url.QueryEscape(matchers(a.Labels)))
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
func (a *alert) key() string {
	if keyForm.MatchString(a.Fingerprint) {
		return "alert:" + a.Fingerprint
	}
	sum := sha256.Sum256([]byte(matchers(a.Labels)))
	return "alert:" + hex.EncodeToString(sum[:])
}
