package protocol

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/request"
)

// attachment is an element of attachments in JSON, as Apprise sends it.
type attachment struct {
	Filename string `json:"filename"`
	Name     string `json:"name"`
	MimeType string `json:"mimetype"`
	Type     string `json:"type"`
	Base64   string `json:"base64"` // the number of the file
	URL      string `json:"url"`
}

// NameFiles gives the request's files their names and types in a field attachments, and returns the addresses in it: nothing is
// fetched.
func (r *Request) NameFiles(v request.Value) (addresses []string, err error) {
	if !v.IsJSON() {
		text, err := v.Text("attachments")
		if err == nil && text != nil && format.IsWeb(*text) {
			addresses = append(addresses, *text)
		}
		return addresses, err
	}
	var list []json.RawMessage
	if json.Unmarshal(v.Raw(), &list) != nil {
		list = []json.RawMessage{v.Raw()}
	}
	for _, raw := range list {
		var a attachment
		if json.Unmarshal(raw, &a.URL) != nil && json.Unmarshal(raw, &a) != nil {
			return nil, refusal.Invalid("attachments", "An attachment is an object with filename, mimetype and base64, or an address.")
		}
		switch {
		case a.Base64 != "":
			n, err := strconv.Atoi(a.Base64)
			if err != nil || n < 0 || n >= len(r.Files) {
				return nil, refusal.Invalid("attachments", "An attachment is not valid base64.")
			}
			r.Files[n].Name = cmp.Or(a.Filename, a.Name, r.Files[n].Name)
			r.Files[n].Type = cmp.Or(a.MimeType, a.Type, r.Files[n].Type)
		case format.IsWeb(a.URL):
			addresses = append(addresses, a.URL)
		}
	}
	return addresses, nil
}

// AddLinks adds addresses to the text of a draft.
func AddLinks(d *post.Draft, addresses []string) {
	for _, address := range addresses {
		if d.ContentType == format.HTML {
			d.Body = format.Paragraphs(d.Body, format.Link("", address))
		} else {
			d.Body += "\n\n" + address
		}
	}
}

// FileText is the text of a message that has only files.
func (r *Request) FileText() string {
	names := make([]string, len(r.Files))
	for i, f := range r.Files {
		names[i] = format.Line(cmp.Or(f.Name, "a file without a name"), 255)
	}
	return "You received " + strings.Join(names, ", ")
}
