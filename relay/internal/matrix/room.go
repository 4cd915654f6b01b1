package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
)

// checkAge is how long a look at a room's state is good for while sync does not
// keep it up to date.
const checkAge = 10 * time.Second

// heardFor is how long after an answer of sync the rooms count as kept up to date: until the next one is late.
const heardFor = longPoll + lateAfter

// RoomInfo is what the homeserver tells about a room.
type RoomInfo struct {
	RoomID    string
	Name      string
	Alias     string
	Joined    bool
	Invited   bool
	Encrypted bool
	Writable  bool   // the bot's power level suffices for m.room.message
	Notifies  bool   // …and for notifying everybody in the room (@room)
	ReplaceBy string // the room that took its place, if it was upgraded
}

// rooms is what is known of rooms: from sync, and from a look before the first send.
type rooms struct {
	mu    sync.RWMutex
	known map[string]*room
	heard time.Time // when the last answer of sync was taken in; zero while sync fails
}

// room is the part of a room's state that sending depends on. Encryption cannot
// be turned off, and a replaced room stays replaced.
type room struct {
	encrypted  bool
	rules      *event.EncryptionEventContent // how it is encrypted
	replacedBy string
	checked    time.Time // when the state was looked at, zero if it was not
	invitedBy  string
}

func (r *rooms) get(id string) (room, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	known := r.known[id]
	if known == nil || known.checked.IsZero() || time.Since(known.checked) > checkAge && time.Since(r.heard) > heardFor {
		if known != nil && known.encrypted {
			return *known, true
		}
		return room{}, false
	}
	return *known, true
}

// update changes what is known of a room, under the lock.
func (r *rooms) update(id string, change func(*room)) room {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known[id]
	if known == nil {
		known = &room{}
		r.known[id] = known
	}
	change(known)
	return *known
}

func (r *rooms) forgetCheck(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.known[id]; known != nil {
		known.checked = time.Time{}
	}
}

// forgetChecks makes every room be looked at again.
func (r *rooms) forgetChecks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.known {
		known.checked = time.Time{}
	}
}

// setSyncing tells whether sync keeps the rooms up to date. What was looked at
// while it did not may have changed since.
func (r *rooms) setSyncing(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Time{}
	if on {
		r.heard = time.Now()
	}
}

// standing is the state of a room that sending depends on. It is asked of the
// homeserver before the first send: a room that sync has not shown yet may be
// encrypted, and on doubt nothing is sent.
func (c *Client) standing(ctx context.Context, roomID string) (room, error) {
	if known, ok := c.rooms.get(roomID); ok {
		return known, nil
	}
	begin := time.Now()
	var encryption json.RawMessage
	encrypted, err := c.roomState(ctx, roomID, "m.room.encryption", &encryption)
	if err != nil {
		return room{}, c.notIn(err)
	}
	var tombstone event.TombstoneEventContent
	if _, err := c.roomState(ctx, roomID, "m.room.tombstone", &tombstone); err != nil {
		return room{}, c.notIn(err)
	}
	return c.rooms.update(roomID, func(k *room) {
		if encrypted {
			rules := encryptionRules(encryption)
			k.encrypted, k.rules = true, &rules
		}
		k.checked = begin
		if tombstone.ReplacementRoom != "" {
			k.replacedBy = tombstone.ReplacementRoom.String()
		}
	}), nil
}

// encryptionRules reads how a room is encrypted. What cannot be read has its default: any m.room.encryption makes a room encrypted.
func encryptionRules(content json.RawMessage) (rules event.EncryptionEventContent) {
	_ = json.Unmarshal(content, &rules)
	return rules
}

// notIn says what a refused look at the state means: the bot is not in the room.
func (c *Client) notIn(err error) error {
	var failed *SendError
	if !errors.As(err, &failed) || failed.Class != ClassBlock {
		return err
	}
	outside := *failed
	outside.Class, outside.Reason = ClassJoin, NotInRoom
	return &outside
}

// ask is call for what concerns one room: a failure that the homeserver does not
// have elsewhere does not stop the others.
func (c *Client) ask(ctx context.Context, r request, out any) error {
	err := c.call(ctx, r, out)
	if err == nil {
		return nil
	}
	return c.alone(ctx, err)
}

// roomState reads one state event with an empty key; found is false when the room has none.
func (c *Client) roomState(ctx context.Context, roomID, kind string, out any) (found bool, err error) {
	return c.roomStateOf(ctx, roomID, kind, "", out)
}

func (c *Client) roomStateOf(ctx context.Context, roomID, kind, key string, out any) (found bool, err error) {
	err = c.ask(ctx, request{method: http.MethodGet, path: v3("rooms", roomID, "state", kind, key)}, out)
	var failed *SendError
	if errors.As(err, &failed) && failed.Code == "M_NOT_FOUND" {
		return false, nil
	}
	return err == nil, err
}

// Resolve returns the room id for an address. Room ids are opaque: what begins
// with ! is one, with or without a domain.
func (c *Client) Resolve(ctx context.Context, address string) (string, error) {
	if strings.HasPrefix(address, "!") {
		return address, nil
	}
	if !strings.HasPrefix(address, "#") {
		return "", &SendError{Class: ClassBlock, Reason: "a room is named by its id (!…) or an alias (#…:server)"}
	}
	var out mautrix.RespAliasResolve
	err := c.ask(ctx, request{method: http.MethodGet, path: v3("directory", "room", address)}, &out)
	var failed *SendError
	if errors.As(err, &failed) && (failed.Class == ClassBlock || failed.Class == ClassDead) {
		unknown := *failed
		unknown.Class, unknown.Reason = ClassBlock, "the homeserver does not know the alias"
		return "", &unknown
	}
	if err == nil && out.RoomID == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	return out.RoomID.String(), err
}

// Join accepts a standing invitation or joins a public room.
func (c *Client) Join(ctx context.Context, roomID string) error {
	return c.join(ctx, roomID, serverOf(roomID))
}

// join enters a room by way of a server, if one is known that is in it.
func (c *Client) join(ctx context.Context, roomID, via string) error {
	query := url.Values{}
	if via != "" {
		query.Set("via", via)
		query.Set("server_name", via) // its name before version 1.12
	}
	err := c.ask(ctx, request{method: http.MethodPost, path: v3("join", roomID), query: query, in: struct{}{}}, nil)
	if err != nil {
		return joinRefused(err)
	}
	c.rooms.update(roomID, func(k *room) { k.checked, k.invitedBy = time.Time{}, "" })
	return nil
}

func joinRefused(err error) error {
	var failed *SendError
	if !errors.As(err, &failed) || failed.Class != ClassBlock && failed.Class != ClassDead {
		return err
	}
	blocked := *failed
	blocked.Class = ClassBlock
	switch failed.Code {
	case "M_FORBIDDEN":
		blocked.Reason = "the bot is not in the room and may not enter: invite it"
	default:
		blocked.Reason = "the bot cannot enter the room: is its id right?"
	}
	return &blocked
}

// serverOf is the server in an identifier, "" if it has none.
func serverOf(id string) string {
	_, server, _ := strings.Cut(id, ":")
	return server
}

// Joined lists the ids of the rooms that the bot is in.
func (c *Client) Joined(ctx context.Context) ([]string, error) {
	var out mautrix.RespJoinedRooms
	err := c.call(ctx, request{method: http.MethodGet, path: v3("joined_rooms")}, &out)
	rooms := make([]string, len(out.JoinedRooms))
	for i, roomID := range out.JoinedRooms {
		rooms[i] = roomID.String()
	}
	return rooms, err
}

// Membership tells how a user stands in a room that the bot is in: join, invite, leave, ban, knock, or "" for none.
func (c *Client) Membership(ctx context.Context, roomID, user string) (string, error) {
	var member event.MemberEventContent
	if _, err := c.roomStateOf(ctx, roomID, "m.room.member", user, &member); err != nil {
		return "", c.notIn(err)
	}
	return string(member.Membership), nil
}

// Info tells what the bot knows about a room it may be in.
func (c *Client) Info(ctx context.Context, roomID string) (RoomInfo, error) {
	info := RoomInfo{RoomID: roomID}
	s, err := c.current()
	if err != nil {
		return info, err
	}
	var member event.MemberEventContent
	_, err = c.roomStateOf(ctx, roomID, "m.room.member", s.userID, &member)
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassBlock {
		p, _ := c.pendingOf(roomID)
		info.Invited = p.Inviter != ""
		return info, nil
	}
	if err != nil {
		return info, err
	}
	info.Joined, info.Invited = member.Membership == event.MembershipJoin, member.Membership == event.MembershipInvite
	if !info.Joined {
		return info, nil
	}
	return c.describe(ctx, info, s.userID)
}

// describe fills in the state of a room that the bot is in.
func (c *Client) describe(ctx context.Context, info RoomInfo, me string) (RoomInfo, error) {
	c.rooms.forgetCheck(info.RoomID) // whoever asks wants to know what is, not what was
	standing, err := c.standing(ctx, info.RoomID)
	if err != nil {
		return info, err
	}
	info.Encrypted, info.ReplaceBy = standing.encrypted, standing.replacedBy
	var name event.RoomNameEventContent
	var alias event.CanonicalAliasEventContent
	var power powerLevels
	for kind, out := range map[string]any{"m.room.name": &name, "m.room.canonical_alias": &alias, "m.room.power_levels": &power} {
		if _, err := c.roomState(ctx, info.RoomID, kind, out); err != nil {
			return info, err
		}
	}
	info.Name, info.Alias = line(name.Name), alias.Alias.String()
	info.Writable = power.of(me) >= power.needed("m.room.message")
	info.Notifies = power.of(me) >= power.notify()
	if !info.Writable || !info.Notifies {
		creator, err := c.isCreator(ctx, info.RoomID, me)
		if err != nil {
			return info, err
		}
		info.Writable, info.Notifies = info.Writable || creator, info.Notifies || creator
	}
	info.Notifies = info.Notifies && info.Writable
	return info, nil
}

// isCreator tells whether the bot made the room, of a version where creators
// outrank any power level (room version 12).
func (c *Client) isCreator(ctx context.Context, roomID, me string) (bool, error) {
	var create struct {
		Sender  string `json:"sender"`
		Content struct {
			Additional []string `json:"additional_creators"`
		} `json:"content"`
	}
	if strings.Contains(roomID, ":") {
		return false, nil // only ids since version 12 have no domain
	}
	path := v3("rooms", roomID, "state", "m.room.create", "")
	err := c.ask(ctx, request{method: http.MethodGet, path: path, query: url.Values{"format": {"event"}}}, &create)
	return create.Sender == me || slices.Contains(create.Content.Additional, me), err
}

// powerLevels of a room (client-server API, m.room.power_levels). Old rooms have
// levels as text, so each is read for itself.
type powerLevels struct {
	Users         map[string]level `json:"users"`
	UsersDefault  level            `json:"users_default"`
	Events        map[string]level `json:"events"`
	EventsDefault level            `json:"events_default"`
	Notifications struct {
		Room *level `json:"room"`
	} `json:"notifications"`
}

// notify is the level that @room needs.
func (p powerLevels) notify() level {
	if p.Notifications.Room != nil {
		return *p.Notifications.Room
	}
	const unset = 50
	return unset
}

type level int64

// UnmarshalJSON reads a number or a number in quotes; anything else is 0.
func (l *level) UnmarshalJSON(b []byte) error {
	var n json.Number
	if json.Unmarshal(b, &n) == nil {
		if i, err := n.Int64(); err == nil {
			*l = level(i)
		}
	}
	return nil
}

func (p powerLevels) of(user string) level {
	if l, ok := p.Users[user]; ok {
		return l
	}
	return p.UsersDefault
}

func (p powerLevels) needed(kind string) level {
	if l, ok := p.Events[kind]; ok {
		return l
	}
	return p.EventsDefault
}
