package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// UptimeKuma is the webhook of Uptime Kuma, as JSON or as a form with the field data.
func UptimeKuma() protocol.Protocol {
	return protocol.Protocol{
		Name: "uptimekuma", Routes: withMethod(hook("uptimekuma"), http.MethodGet), Token: protocol.Token, Events: true,
		Parse: func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
			if r.Method == http.MethodGet {
				return parseQuery(r)
			}
			in, err := kumaEventOf(r)
			if err != nil {
				return protocol.Parsed{}, err
			}
			if in.Heartbeat == nil && in.Monitor == nil && in.Msg == "" && len(r.Body) > len("{}") { // the body is one of the user's own
				return parseGeneric(r, format.Plain, true)
			}
			d, err := in.draft()
			return one(d), err
		},
		Reply: reply, Fail: failLater,
	}
}

type kumaEvent struct {
	Heartbeat *struct {
		Status int    `json:"status"` // 0 down, 1 up, 2 pending, 3 maintenance
		Msg    string `json:"msg"`
		Time   string `json:"time"`
	} `json:"heartbeat"`
	Monitor *struct {
		ID   json.RawMessage `json:"id"`
		Name string          `json:"name"`
		URL  string          `json:"url"`
	} `json:"monitor"`
	Msg string `json:"msg"`
}

func kumaEventOf(r *protocol.Request) (in kumaEvent, err error) {
	if request.IsJSON(r.Body) {
		return in, protocol.DecodeHook(r, &in)
	}
	err = request.Each(r.Header.Get("Content-Type"), r.Body, func(name string, v request.Value) error {
		text, err := v.Text(name)
		if name == "data" && text != nil && protocol.DecodeObject([]byte(*text), &in) != nil {
			return refusal.Invalid("data", "The field data is not the JSON of Uptime Kuma.")
		}
		return err
	})
	return in, err
}

func (e *kumaEvent) draft() (post.Draft, error) {
	if e.Heartbeat == nil || e.Monitor == nil {
		if e.Msg == "" {
			return post.Draft{}, refusal.Invalid("msg", "The body has neither a heartbeat nor a message.")
		}
		return post.Draft{Content: post.Content{Body: e.Msg, ContentType: format.Plain}}, nil // a test, or a certificate that expires
	}
	state, priority := "changed", 0
	switch e.Heartbeat.Status {
	case 0:
		state, priority = "is down", 1
	case 1:
		state = "is up"
	case 2:
		state = "is pending"
	case 3:
		state = "is in maintenance"
	}
	d := html(format.Line(e.Monitor.Name, 200)+" "+state, format.Lines(format.Text(firstOf(e.Heartbeat.Msg, e.Msg, state)), webLink(e.Monitor.URL)), priority)
	id := strings.Trim(string(e.Monitor.ID), `"`)
	if id == "" || id == "null" {
		return d, nil
	}
	d.Key, d.Change = "monitor:"+format.Line(id, 100), post.Update
	if e.Heartbeat.Status == 1 {
		d.Change = post.Resolve
	}
	if e.Heartbeat.Time != "" {
		d.IdempotencyKey = deliveryKey("uptimekuma", "", fmt.Appendf(nil, "%q %q %d", id, e.Heartbeat.Time, e.Heartbeat.Status))
	}
	return d, nil
}

func webLink(target string) string {
	if !format.IsWeb(target) || target == "https://" {
		return ""
	}
	return format.Link("", target)
}
