package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto/attachment"
	"maunium.net/go/mautrix/event"
)

// EncryptFile encrypts a file for upload. keys are the fields of its EncryptedFile except the URI, as JSON without braces
// (client-server API, sending encrypted attachments).
func EncryptFile(text []byte) (encrypted []byte, keys string) {
	f := attachment.NewEncryptedFile()
	encrypted = slices.Clone(text)
	f.EncryptInPlace(encrypted)
	b, _ := json.Marshal(f) // cannot fail
	return encrypted, string(b[1 : len(b)-1])
}

// Upload is a file to store on the homeserver.
type Upload struct {
	RoomID, Device string // of the event that will refer to it
	Name           string
	MimeType       string
	Data           []byte
	Encrypted      bool // Data is
}

// Upload uploads a file and returns its mxc: URI. Data in the clear is refused like an event that refers to it.
func (c *Client) Upload(ctx context.Context, up Upload) (string, error) {
	if !up.Encrypted {
		if err := c.maySend(ctx, Outgoing{RoomID: up.RoomID, Device: up.Device, EventType: event.EventMessage.Type}); err != nil {
			return "", err
		}
	}
	var out mautrix.RespMediaUpload
	query := url.Values{}
	if up.Name != "" {
		query.Set("filename", up.Name)
	}
	err := c.ask(ctx, request{
		method: http.MethodPost, path: mautrix.MediaURLPath{"v3", "upload"}, query: query,
		raw: up.Data, kind: up.MimeType, limit: maxSendAnswer,
	}, &out)
	if err == nil && out.ContentURI.IsEmpty() {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	var failed *SendError
	if errors.As(err, &failed) && (failed.Class == ClassBlock || failed.Alone && failed.Code == "M_UNRECOGNIZED") {
		return "", reclassify(err, ClassDead, "the homeserver does not take files from the bot")
	}
	return out.ContentURI.String(), err
}
