package webhook

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/httprequest"
	"slipway/relay/internal/inbound"
	"slipway/relay/internal/markup"
)

// PushBits is POST /alert, where PushBits takes the webhooks of Alertmanager and Grafana: a report of each alert that
// starts, changes or ends. PushBits' POST /message is the protocol of [inbound.Gotify].
func PushBits() inbound.Protocol {
	return inbound.Protocol{
		Name: "pushbits", Routes: inbound.PostAt("/alert"), Token: inbound.Token, Events: true,
		Parse: func(r *inbound.Request, _ inbound.App) (b inbound.Batch, err error) {
			in, err := alertsOf(r)
			for _, a := range in.Alerts {
				b.Drafts = append(b.Drafts, a.inWordsOfPushBits())
			}
			return b, err
		},
		Reply: func(w http.ResponseWriter, res inbound.Result) {
			list := make([]inbound.Message, len(res.Messages))
			for i, m := range res.Messages {
				list[i] = inbound.Show(m.View)
			}
			httprequest.WriteJSON(w, http.StatusOK, list)
		},
		Fail: failLater,
	}
}

func (a *alertReport) inWordsOfPushBits() inbound.Draft {
	state := "[FIR] "
	if a.resolved() {
		state = "[RES] "
	}
	lines := []string{}
	if text := a.first("message", "description", "summary"); text != "" {
		lines = append(lines, text, "")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		lines = append(lines, name+": "+a.Labels[name])
	}
	if len(lines) == 0 {
		lines = append(lines, "status: "+markup.Line(a.Status, 100))
	}
	title := markup.Line(firstOf(a.first("title", "summary", "alertname"), "Alert"), 500)
	return a.report(inbound.Draft{Title: state + title, Message: strings.Join(lines, "\n"), ContentType: format.Plain})
}
