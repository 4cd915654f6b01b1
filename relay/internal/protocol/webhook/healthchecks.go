package webhook

import (
	"fmt"
	"net/http"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/protocol"
	"slipway/relay/internal/request"
)

// Healthchecks is the webhook of healthchecks.io with the body
// {"name": $NAME_JSON, "status": "$STATUS", "code": "$CODE", "now": "$NOW", "tags": "$TAGS"}. Other bodies are shown as
// [Generic] shows them.
func Healthchecks() protocol.Protocol {
	p := protocol.Protocol{Name: "healthchecks", Routes: withMethod(hook("healthchecks"), http.MethodPut), Token: protocol.Token, Events: true, Reply: reply, Fail: failLater}
	p.Parse = func(r *protocol.Request, _ protocol.App) (protocol.Parsed, error) {
		var in struct {
			Name   string `json:"name"`
			Status string `json:"status"`
			Code   string `json:"code"`
			Now    string `json:"now"`
			Tags   string `json:"tags"`
		}
		if !request.IsJSON(r.Body) || protocol.DecodeObject(r.Body, &in) != nil || in.Name == "" || in.Status == "" {
			return parseGeneric(r, format.Plain, true)
		}
		priority := 0
		if in.Status == "down" {
			priority = 1
		}
		text := "The check " + format.Bold(format.Line(in.Name, 200)) + " is " + format.Escape(in.Status) + "."
		if in.Tags != "" {
			text = format.Lines(text, format.Text("Tags: "+in.Tags))
		}
		d := html(format.Line(in.Name, 200)+" is "+format.Line(in.Status, 20), text, priority)
		d.Key, d.Change = "check:"+format.Line(firstOf(in.Code, in.Name), 200), post.Update
		if in.Status == "up" {
			d.Change = post.Resolve
		}
		if in.Code != "" && in.Now != "" {
			d.IdempotencyKey = deliveryKey("healthchecks", "", fmt.Appendf(nil, "%q %q %q", in.Code, in.Now, in.Status))
		}
		return one(d), nil
	}
	return p
}
