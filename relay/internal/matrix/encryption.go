package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"slipway/relay/internal/encryption"
	"slipway/relay/internal/format"
)

// EventEncrypted is the type of encrypted events.
const EventEncrypted = "m.room.encrypted"

// EventReaction is the type of a reaction. Clients send it in the clear, also in encrypted rooms.
const EventReaction = "m.reaction"

const (
	openWithin  = 30 * time.Second
	minOpenWait = 5 * time.Second
	maxOpenWait = 5 * time.Minute
)

// device is the bot's device in encrypted rooms, an [encryption.Device].
type device interface {
	Encrypt(ctx context.Context, room encryption.Room, eventType string, content json.RawMessage, marked string) ([]byte, error)
	Take(ctx context.Context, answer *mautrix.RespSync, first bool) error
	MembersChanged(roomID string)
	Status() encryption.Identity
	Broken() error
	Close()
}

// crypt holds the device of the current session, or the error of opening it.
type crypt struct {
	mu       sync.Mutex
	device   device
	of       *session
	failure  *SendError
	failures int
	next     time.Time // earliest next attempt to open it
}

// errNotOpen reports that the device is being opened.
var errNotOpen = &SendError{Class: ClassRetry, Alone: true, Reason: "the bot's device is being prepared for encrypted rooms"}

// current returns the device of a session, or the error of opening it.
func (k *crypt) current(s *session) (device, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.device != nil && k.of == s:
		return k.device, nil
	case k.failure != nil && k.of == s:
		return nil, k.failure
	}
	return nil, errNotOpen
}

// drop closes the device; the next use opens it again.
func (k *crypt) drop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.device != nil {
		k.device.Close()
	}
	k.device, k.of, k.failure, k.failures, k.next = nil, nil, nil, 0, time.Time{}
}

// openDevice ensures that the session's device is open. ready reports whether it just opened. Without a device only messages to
// encrypted rooms wait.
func (c *Client) openDevice(ctx context.Context) (opened device, ready bool) {
	s := c.session.Load()
	if s == nil {
		return nil, false
	}
	k := &c.crypt
	if d, err := k.current(s); err == nil {
		if d.Broken() == nil {
			return d, false
		}
		k.drop()
	}
	k.mu.Lock()
	early := k.of == s && time.Now().Before(k.next)
	k.mu.Unlock()
	if early {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	d, err := c.newDevice(ctx, s)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of != s {
		k.failure, k.failures = nil, 0
	}
	k.device, k.of = d, s
	if err == nil {
		k.failure, k.failures = nil, 0
		return d, true
	}
	failed := c.cannotOpen(s, err)
	if k.failure == nil || k.failure.Reason != failed.Reason {
		c.log.Warn("the bot cannot encrypt", zap.String("reason", failed.Reason), zap.Error(err))
	}
	k.failure = failed
	k.failures++
	k.next = time.Now().Add(min(minOpenWait<<min(k.failures-1, 10), maxOpenWait))
	return nil, false
}

func (c *Client) newDevice(ctx context.Context, s *session) (device, error) {
	switch {
	case s.DeviceID == noDevice:
		return nil, encryption.ErrNoDevice
	case len(c.options.PickleKey) == 0:
		return nil, errNoPickleKey
	}
	api := c.api(s.UserID, s.Token)
	api.DeviceID = id.DeviceID(s.DeviceID)
	bounded := *c.http
	bounded.Timeout = c.options.Timeout
	api.Client = &bounded
	return openDevice(ctx, encryption.Options{
		Keys: c.store.Keys(), PickleKey: c.options.PickleKey, Client: api, RecoveryKey: c.options.RecoveryKey, Password: c.options.Password, Log: c.log,
	})
}

var (
	errNoPickleKey = errors.New("no pickle key is set")
	errNotBuilt    = errors.New("the relay is built without the tag goolm")
)

// cannotOpen classifies an error of opening the device. Errors that need a person block the room.
func (c *Client) cannotOpen(s *session, err error) *SendError {
	lost := " If it is lost, remove the bot's device from its account: the relay then logs in with a new one (docs/relay/encrypted-rooms.md, Start over). The device is " + s.DeviceID + "."
	blocked := func(reason string) *SendError { return &SendError{Class: ClassEncrypted, Reason: reason, Err: err} }
	switch {
	case errors.Is(err, errNotBuilt):
		return blocked("This relay is built without encryption (-tags goolm), which the room needs.")
	case errors.Is(err, errNoPickleKey):
		return blocked("An encrypted room needs matrix.pickle_key, which all relays of a PostgreSQL database share.")
	case errors.Is(err, encryption.ErrNoDevice):
		return blocked("The bot's access token belongs to no device, which an encrypted room needs: give a token that comes from a login, or the password.")
	case errors.Is(err, encryption.ErrWrongKey):
		return blocked("The bot's keys for encrypted rooms were stored with another pickle key: put that one back." + lost)
	case errors.Is(err, encryption.ErrOtherKeys):
		return blocked("The homeserver has other keys for the bot's device " + s.DeviceID + " than the database, so that nobody could read what it encrypts: put the right database back." + lost)
	}
	failed := c.keysFailed(s, err)
	failed.Reason = "the bot's device cannot be prepared for encrypted rooms yet: " + failed.Reason
	return failed
}

// keysFailed classifies a failure to get or share keys. Only the room waits, unless the homeserver is away.
func (c *Client) keysFailed(s *session, err error) *SendError {
	var failed *SendError
	if errors.As(err, &failed) {
		known := *failed
		return &known
	}
	var answer mautrix.HTTPError
	switch {
	case errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode >= 300:
		failed = refused(answer.Response.StatusCode, answer.Response.Header, []byte(answer.ResponseBody))
	case errors.As(err, &answer):
		failed = failedRequest(err)
	default:
		failed = &SendError{Class: ClassRetry, Reason: "the keys cannot be stored", Err: err}
	}
	switch failed.Class {
	case ClassRelogin:
		c.expire(s, failed)
	case ClassAway, ClassLocked, ClassWait:
	default:
		failed.Class, failed.Alone = ClassRetry, true
	}
	return failed
}

// Prepare encrypts an event. The caller must store the result before Send, and repeat the same bytes after a lost answer. It
// asks the homeserver for the members where those may have changed. Its errors are [*SendError]s.
func (c *Client) Prepare(ctx context.Context, out Outgoing) (Outgoing, error) {
	s, err := c.current()
	if err != nil {
		return out, err
	}
	if err := c.sameDevice(out.Device); err != nil {
		return out, err
	}
	standing, err := c.standing(ctx, out.RoomID)
	if err != nil {
		return out, err
	}
	if standing.replacedBy != "" {
		return out, c.moved(ctx, out.RoomID, standing.replacedBy)
	}
	if a := standing.rules; a != nil && a.Algorithm != id.AlgorithmMegolmV1 {
		return out, &SendError{Class: ClassBlock, Reason: "the room is encrypted in a way that the relay does not know: " + line(string(a.Algorithm))}
	}
	d, err := c.crypt.current(s)
	if err != nil {
		return out, err
	}
	room := encryption.Room{ID: out.RoomID, Rules: standing.rules, Members: func(ctx context.Context) ([]id.UserID, error) { return c.readers(ctx, out.RoomID) }}
	wire, err := d.Encrypt(ctx, room, out.EventType, out.Content, format.MarkerField(format.MarkerOf(out.Content)))
	switch {
	case errors.Is(err, encryption.ErrReadersAway):
		return out, &SendError{Class: ClassEncrypted, Err: err, Reason: "No device is known that could read an encrypted message, because the homeserver of a member does not answer. The message waits for it."}
	case errors.Is(err, encryption.ErrNoReaders):
		return out, &SendError{Class: ClassEncrypted, Err: err, Reason: "Nobody in the room has a device that could read an encrypted message: log in with a Matrix client as a member of the room."}
	}
	if err != nil {
		err = c.alone(ctx, c.keysFailed(s, err))
		return out, withReason(err, "the room's keys cannot be shared yet: "+reasonOf(err))
	}
	out.EventType, out.Content, out.Encrypted = EventEncrypted, wire, true
	return out, nil
}

// readers returns the users who may read a new message: members, and invited users unless only members may read.
func (c *Client) readers(ctx context.Context, roomID string) ([]id.UserID, error) {
	var visibility event.HistoryVisibilityEventContent
	if _, err := c.roomState(ctx, roomID, "m.room.history_visibility", "", &visibility); err != nil {
		return nil, c.notIn(err)
	}
	var members struct {
		Chunk []struct {
			StateKey string `json:"state_key"`
			Content  struct {
				Membership event.Membership `json:"membership"`
			} `json:"content"`
		} `json:"chunk"`
	}
	if err := c.ask(ctx, membersOf(roomID), &members); err != nil {
		return nil, c.notIn(err)
	}
	var all []id.UserID
	for _, m := range members.Chunk {
		invited := m.Content.Membership == event.MembershipInvite && visibility.HistoryVisibility != event.HistoryVisibilityJoined
		if m.Content.Membership == event.MembershipJoin || invited {
			all = append(all, id.UserID(m.StateKey))
		}
	}
	return all, nil
}

// membersOf asks for the members of a room, without those who left.
func membersOf(roomID string) request {
	return request{method: http.MethodGet, path: v3("rooms", roomID, "members"), query: url.Values{"not_membership": {"leave"}}, limit: maxListAnswer}
}

// RecoveryKey returns the recovery key of the bot's identity, from the database. With it another client can take the identity
// over.
func (c *Client) RecoveryKey(ctx context.Context) (string, error) {
	kept, err := c.storedSession(ctx)
	switch {
	case err != nil:
		return "", err
	case kept.UserID == "": // a gone device keeps its user
		return "", encryption.ErrNoRecoveryKey
	case len(c.options.PickleKey) == 0:
		return "", errNoPickleKey
	}
	key, err := recoveryKey(ctx, c.store.Keys(), kept.DeviceID, c.options.PickleKey)
	if err == nil && key == "" {
		err = encryption.ErrNoRecoveryKey
	}
	return key, err
}

// membersChanged reports a change of a room's readers to the device.
func (c *Client) membersChanged(roomID string) {
	c.crypt.mu.Lock()
	d := c.crypt.device
	c.crypt.mu.Unlock()
	if d != nil {
		d.MembersChanged(roomID)
	}
}

// Encryption returns the view of the bot's device that other clients have, and why the bot cannot encrypt, "" if it can. Both are
// empty while another relay delivers.
func (c *Client) Encryption() (status encryption.Identity, problem string) {
	if !c.delivers() {
		return status, ""
	}
	s, err := c.current()
	if err != nil {
		return status, reasonOf(err)
	}
	d, err := c.crypt.current(s)
	if err != nil {
		return encryption.Identity{Device: s.DeviceID}, reasonOf(err)
	}
	return d.Status(), ""
}
