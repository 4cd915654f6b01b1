package protocol

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
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
	Base64   []byte `json:"base64"`
	URL      string `json:"url"`
}

// ErrNotBase64 refuses a file that isn't valid base64.
var ErrNotBase64 = refusal.Invalid("attachments", "An attachment is not valid base64.")

// AddFiles adds the files in a field attachments to those of the request, and returns the addresses in it: nothing is fetched.
func (r *Request) AddFiles(v request.Value) (addresses []string, err error) {
	if !v.IsJSON() {
		text, err := v.Text("attachments")
		if err == nil && text != nil && format.IsWeb(*text) {
			addresses = append(addresses, *text)
		}
		return addresses, err
	}
	var list []json.RawMessage
	if request.Unmarshal(v.Raw(), &list) != nil {
		list = []json.RawMessage{v.Raw()}
	}
	for _, raw := range list {
		var a attachment
		if json.Unmarshal(raw, &a.URL) != nil {
			err = json.Unmarshal(raw, &a)
		}
		switch {
		case errors.As(err, new(base64.CorruptInputError)):
			return nil, ErrNotBase64
		case err != nil:
			return nil, refusal.Invalid("attachments", "An attachment is an object with filename, mimetype and base64, or an address.")
		case a.Base64 != nil:
			r.Files = append(r.Files, File{Name: cmp.Or(a.Filename, a.Name), Type: cmp.Or(a.MimeType, a.Type), Content: a.Base64})
		case format.IsWeb(a.URL):
			addresses = append(addresses, a.URL)
		}
	}
	return addresses, nil
}

// noMarkup escapes what would end an address in Markdown.
var noMarkup = strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E")

// AddLinks adds web addresses to the text of a draft.
func AddLinks(d *post.Draft, addresses []string) {
	for _, address := range addresses {
		switch d.ContentType {
		case format.HTML:
			d.Body = format.Paragraphs(d.Body, format.Link("", address))
		case format.Plain:
			d.Body += "\n\n" + address
		default:
			d.Body += "\n\n<" + noMarkup.Replace(address) + ">"
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
