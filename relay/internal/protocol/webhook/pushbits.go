package webhook

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/request"
)

// PushBits is POST /alert, the endpoint of PushBits for webhooks of Alertmanager and Grafana: a report of each alert that
// starts, changes or ends. PushBits' POST /message is the protocol of [protocol.Native].
func PushBits() protocol.Protocol {
	return protocol.Protocol{
		Name: "pushbits", Routes: protocol.PostAt("/alert"), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, _ protocol.App) (b protocol.Parsed, err error) {
			in, err := alertsOf(r)
			for _, a := range in.Alerts {
				b.Drafts = append(b.Drafts, a.inWordsOfPushBits())
			}
			return b, err
		},
		Reply: func(w http.ResponseWriter, res protocol.Result) {
			list := make([]protocol.Message, len(res.Messages))
			for i, m := range res.Messages {
				list[i] = protocol.Show(m.View)
			}
			request.WriteJSON(w, http.StatusOK, list)
		},
		Fail: failLater,
	}
}

func (a *alertReport) inWordsOfPushBits() post.Draft {
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
		lines = append(lines, "status: "+format.Line(a.Status, 100))
	}
	title := format.Line(firstOf(a.first("title", "summary", "alertname"), "Alert"), 500)
	return a.report(post.Draft{Content: post.Content{Title: state + title, Body: strings.Join(lines, "\n"), ContentType: format.Plain}})
}
