package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"maunium.net/go/mautrix"
)

// Outgoing is an event to send.
type Outgoing struct {
	RoomID    string
	TxnID     string // stored before the first attempt and the same for all
	Device    string // of earlier attempts, or the current one
	EventType string // e.g. m.room.message
	Content   json.RawMessage
	Encrypted bool // the room is known to be encrypted
}

// Redaction is an event to remove.
type Redaction struct {
	RoomID, EventID, TxnID, Device, Reason string
}

// Send sends an event under its transaction id and returns the event id. It returns ClassReconcile without sending if the
// current device is not out.Device.
func (c *Client) Send(ctx context.Context, out Outgoing) (string, error) {
	if err := c.maySend(ctx, out); err != nil {
		return "", err
	}
	path := v3("rooms", out.RoomID, "send", out.EventType, out.TxnID)
	return c.put(ctx, out.RoomID, path, out.Content)
}

// Redact removes an event under the transaction id of the redaction.
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
	switch {
	case !hasClass(err, ClassBlock):
		return id, err
	case hasCode(err, "M_NOT_FOUND"):
		return "", withReason(err, "the homeserver does not know the event in the room")
	}
	return "", withReason(err, "the bot may not remove events in the room: its power level is too low")
}

// maySend returns an error for an event that must not be sent: from a new device, unencrypted to an encrypted room, or to a
// room that was replaced.
func (c *Client) maySend(ctx context.Context, out Outgoing) error {
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
	if (standing.encrypted || out.Encrypted) && out.EventType != EventEncrypted && out.EventType != EventReaction {
		return &SendError{Class: ClassEncrypted, Encrypt: true, Reason: "the room is encrypted"}
	}
	return nil
}

// sameDevice returns ClassReconcile if the homeserver could not recognize a repetition.
func (c *Client) sameDevice(device string) error {
	s, err := c.current()
	if err != nil {
		return err
	}
	if device != "" && device != s.DeviceID {
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

// explain returns what a refusal means beyond its code.
func (c *Client) explain(ctx context.Context, roomID string, err error) error {
	if hasClass(err, ClassBlock) {
		return c.explainRoom(ctx, roomID, err)
	}
	return c.alone(ctx, err)
}

// alone checks whether only this request fails, because of a proxy or another server. Other rooms are not affected then.
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
		single.Reason = "the homeserver answers, but not to this request: does a proxy in front of it hold requests back?"
	}
	return &single
}

// explainRoom distinguishes a room's refusals: the bot is not in it, it was replaced, or the power level is too low.
func (c *Client) explainRoom(ctx context.Context, roomID string, err error) error {
	c.rooms.forgetCheck(roomID)
	joined, listErr := c.Joined(ctx)
	if listErr != nil {
		return listErr // the next attempt asks again
	}
	if !slices.Contains(joined, roomID) {
		return reclassify(err, ClassJoin, NotInRoom)
	}
	if standing, stateErr := c.standing(ctx, roomID); stateErr == nil && standing.replacedBy != "" {
		return c.moved(ctx, roomID, standing.replacedBy)
	}
	if hasCode(err, "M_FORBIDDEN") {
		return withReason(err, MayNotWrite)
	}
	return err
}
