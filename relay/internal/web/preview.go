package web

import (
	"bytes"
	"encoding/json"
	"net/http"

	"slipway/relay/internal/account"
)

// postPreview shows what the templates of the form would make of the last payload. Nothing is saved.
func (web *Web) postPreview(w http.ResponseWriter, v *sessionRequest) error {
	form := v.PostForm
	in, err := settingsOf(form)
	var preview account.Preview
	var payload []byte
	if err == nil {
		payload, err = web.service.Payload(v.ctx(), v.Principal, idOf(v))
	}
	if err == nil {
		preview, err = web.service.Preview(v.ctx(), v.Principal, idOf(v), in, payload)
	}
	if err != nil {
		return web.showApplication(w, v, form, err)
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, payload, "", "  ") != nil {
		pretty.Write(payload)
	}
	return web.showPreview(w, v, form, nil, &preview, pretty.String())
}
