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
)

// Outgoing is one event on its way.
type Outgoing struct {
	RoomID    string
	TxnID     string // stored before the first attempt, the same for each attempt
	Device    string // the device of the earlier attempts, or the one in use
	EventType string // e.g. m.room.message
	Content   json.RawMessage
	Encrypted bool // the room was once seen encrypted; it must never get plaintext again
}

// Redaction is one removal on its way.
type Redaction struct {
	RoomID, EventID, TxnID, Device, Reason string
}

// Send puts one event under its transaction id and returns the event's id. It answers
// ClassReconcile, without sending, when the device in use is not out.Device.
func (c *Client) Send(ctx context.Context, out Outgoing) (string, error) {
	if err := c.MaySend(ctx, out); err != nil {
		return "", err
	}
	path := v3("rooms", out.RoomID, "send", out.EventType, out.TxnID)
	return c.put(ctx, out.RoomID, path, out.Content)
}

// Redact removes an event under the redaction's transaction id.
func (c *Client) Redact(ctx context.Context, out Redaction) (string, error) {
	if err := c.sameDevice(out.Device); err != nil {
		return "", err
	}
	content, err := json.Marshal(mautrix.ReqRedact{Reason: out.Reason})
	if err != nil {
		return "", err
	}
	path := v3("rooms", out.RoomID, "redact", out.EventID, out.TxnID)
	id, err := c.put(ctx, out.RoomID, path, content)
	var failed *SendError
	if !errors.As(err, &failed) || failed.Class != ClassBlock {
		return id, err
	}
	refused := *failed
	refused.Reason = "the bot may not remove events in the room: its power level is too low"
	if failed.Code == "M_NOT_FOUND" {
		refused.Reason = "the homeserver does not know the event in the room"
	}
	return "", &refused
}

// MaySend holds back what must not leave: under a new device, in the clear into
// an encrypted room, or into a room that another one has replaced.
func (c *Client) MaySend(ctx context.Context, out Outgoing) error {
	if err := c.sameDevice(out.Device); err != nil {
		return err
	}
	standing, err := c.standing(ctx, out.RoomID)
	if err != nil {
		return err
	}
	if standing.replacedBy != "" {
		return c.moved(ctx, out.RoomID, standing.replacedBy)
	}
	if (standing.encrypted || out.Encrypted) && out.EventType != "m.room.encrypted" {
		return &SendError{Class: ClassEncrypted, Encrypt: true, Reason: "the room is encrypted"}
	}
	return nil
}

// sameDevice refuses when the homeserver could not tell a repetition from a new event.
func (c *Client) sameDevice(device string) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	if device != "" && device != s.deviceID {
		return &SendError{Class: ClassReconcile, Reason: "the bot has a new device since the first attempt"}
	}
	return nil
}

func (c *Client) put(ctx context.Context, roomID string, path mautrix.ClientURLPath, content []byte) (string, error) {
	var sent mautrix.RespSendEvent
	err := c.call(ctx, request{method: http.MethodPut, path: path, raw: content, limit: maxSendAnswer, repeats: true}, &sent)
	if err != nil {
		return "", c.explain(ctx, roomID, err)
	}
	if sent.EventID == "" {
		return "", notJSON(http.StatusOK, nil, errNoField)
	}
	return sent.EventID.String(), nil
}

// explain finds out what a refusal means beyond its code.
func (c *Client) explain(ctx context.Context, roomID string, err error) error {
	var failed *SendError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.Class == ClassBlock:
		return c.explainRoom(ctx, roomID, failed)
	}
	return c.alone(ctx, err)
}

// alone finds out whether it is for one room only that something answers in the
// homeserver's place, or that it cannot reach another server: other rooms are not affected then.
func (c *Client) alone(ctx context.Context, err error) error {
	var failed *SendError
	if !errors.As(err, &failed) || failed.Class != ClassAway || failed.Status == 0 || c.Probe(ctx) != nil {
		return err
	}
	single := *failed
	single.Class, single.Alone = ClassRetry, true
	switch {
	case away(failed.Status):
		single.Reason = "the homeserver answers, but cannot do this now: perhaps it needs another server, or a part of itself, that is away"
	case failed.Code != "M_RESOURCE_LIMIT_EXCEEDED":
		single.Reason = "the homeserver answers, but not to this request: does a proxy before it hold requests back?"
	}
	return &single
}

// explainRoom tells a room's refusals apart: the bot is not in it, it was
// replaced, or the bot has no power to speak.
func (c *Client) explainRoom(ctx context.Context, roomID string, failed *SendError) error {
	c.rooms.forgetCheck(roomID)
	joined, listErr := c.Joined(ctx)
	if listErr != nil {
		return listErr // the next attempt asks again
	}
	explained := *failed
	if !slices.Contains(joined, roomID) {
		explained.Class, explained.Reason = ClassJoin, NotInRoom
		return &explained
	}
	if standing, err := c.standing(ctx, roomID); err == nil && standing.replacedBy != "" {
		return c.moved(ctx, roomID, standing.replacedBy)
	}
	if failed.Code == "M_FORBIDDEN" {
		explained.Reason = MayNotWrite
	}
	return &explained
}

// EncryptFile encrypts a file before its upload. keys are the fields of the EncryptedFile that its event needs, without the URI,
// as JSON without braces (client-server API, sending encrypted attachments).
func EncryptFile(text []byte) (encrypted []byte, keys string) {
	f := attachment.NewEncryptedFile()
	encrypted = slices.Clone(text)
	f.EncryptInPlace(encrypted)
	b, _ := json.Marshal(f) // of strings
	return encrypted, string(b[1 : len(b)-1])
}

// Upload stores a text as a file on the homeserver and returns its mxc: URI.
func (c *Client) Upload(ctx context.Context, name, mimeType string, data []byte) (string, error) {
	var out mautrix.RespMediaUpload
	query := url.Values{}
	if name != "" {
		query.Set("filename", name)
	}
	err := c.ask(ctx, request{
		method: http.MethodPost, path: mautrix.MediaURLPath{"v3", "upload"}, query: query,
		raw: data, kind: mimeType, limit: maxSendAnswer,
	}, &out)
	if err == nil && out.ContentURI.IsEmpty() {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	var failed *SendError
	if errors.As(err, &failed) && (failed.Class == ClassBlock || failed.Alone && failed.Code == "M_UNRECOGNIZED") {
		refused := *failed
		refused.Class, refused.Reason = ClassDead, "the homeserver does not take files from the bot"
		return "", &refused
	}
	return out.ContentURI.String(), err
}
