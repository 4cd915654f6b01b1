package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
)

// checkAge is the lifetime of a room's cached state while sync does not update it.
const checkAge = 10 * time.Second

// heardFor is the time after a sync response until the next one is late.
const heardFor = longPoll + lateAfter

// RoomInfo is a room as the homeserver describes it.
type RoomInfo struct {
	RoomID    string
	Name      string
	Alias     string
	Joined    bool
	Invited   bool
	Encrypted bool
	Writable  bool   // the bot may send messages
	Notifies  bool   // the bot may mention the whole room
	ReplaceBy string // the successor, if the room was upgraded
}

// rooms is the cached state of rooms, from sync and from reads before the first send.
type rooms struct {
	mu    sync.RWMutex
	known map[string]*room
	heard time.Time // time of the last sync response; zero while sync fails
}

// room is the state that sending depends on. Encryption cannot be undone.
type room struct {
	encrypted  bool
	rules      *event.EncryptionEventContent // of its encryption
	replacedBy string
	checked    time.Time // when the state was read; zero if never
}

func (r *rooms) get(id string) (room, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	known := r.known[id]
	if known == nil || known.checked.IsZero() || time.Since(known.checked) > checkAge && time.Since(r.heard) > heardFor {
		if known != nil && known.encrypted && known.replacedBy == "" {
			return *known, true
		}
		return room{}, false
	}
	return *known, true
}

// update changes a room's state under the lock.
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

// forgetChecks invalidates all cached states.
func (r *rooms) forgetChecks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.known {
		known.checked = time.Time{}
	}
}

// setSyncing records whether sync keeps the rooms up to date. A state that was read while it did not may have changed since.
func (r *rooms) setSyncing(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = time.Time{}
	if on {
		r.heard = time.Now()
	}
}

// standing returns the state that sending depends on. It asks the homeserver before the first send, because a room that sync
// has not shown yet may be encrypted.
func (c *Client) standing(ctx context.Context, roomID string) (room, error) {
	if known, ok := c.rooms.get(roomID); ok {
		return known, nil
	}
	begin, before := time.Now(), c.rooms.update(roomID, func(*room) {}).replacedBy
	var encryption json.RawMessage
	if _, err := c.roomState(ctx, roomID, "m.room.encryption", "", &encryption); err != nil {
		return room{}, c.notIn(err)
	}
	var tombstone event.TombstoneEventContent
	if _, err := c.roomState(ctx, roomID, "m.room.tombstone", "", &tombstone); err != nil {
		return room{}, c.notIn(err)
	}
	return c.rooms.update(roomID, func(k *room) {
		k.encrypt(encryption)
		k.checked = begin
		if k.replacedBy == before { // sync has shown no newer one
			k.replacedBy = tombstone.ReplacementRoom.String()
		}
	}), nil
}

// encryptionRules decodes m.room.encryption. Malformed fields have their defaults, but without an algorithm it returns nil: clients
// ignore such an event, and Dendrite may answer with another event's content before the bot has joined.
func encryptionRules(content json.RawMessage) *event.EncryptionEventContent {
	var rules event.EncryptionEventContent
	if _ = json.Unmarshal(content, &rules); rules.Algorithm == "" {
		return nil
	}
	return &rules
}

// encrypt marks the room as encrypted, and reports it, if content is that of m.room.encryption.
func (k *room) encrypt(content json.RawMessage) bool {
	rules := encryptionRules(content)
	if rules != nil {
		k.encrypted, k.rules = true, rules
	}
	return rules != nil
}

// notIn returns the error of a refused state read: the bot is not in the room.
func (c *Client) notIn(err error) error {
	if !hasClass(err, ClassBlock) {
		return err
	}
	return reclassify(err, ClassJoin, NotInRoom)
}

// ask is call for one room: a failure that the homeserver doesn't have elsewhere doesn't stop other rooms.
func (c *Client) ask(ctx context.Context, r request, out any) error {
	err := c.call(ctx, r, out)
	if err == nil {
		return nil
	}
	return c.alone(ctx, err)
}

// roomState reads a state event and reports whether the room has one.
func (c *Client) roomState(ctx context.Context, roomID, kind, key string, out any) (found bool, err error) {
	err = c.ask(ctx, request{method: http.MethodGet, path: v3("rooms", roomID, "state", kind, key)}, out)
	if hasCode(err, "M_NOT_FOUND") {
		return false, nil
	}
	return err == nil, err
}

// Resolve returns the room id of an id or alias. Ids begin with ! and are opaque, with or without a domain.
func (c *Client) Resolve(ctx context.Context, address string) (string, error) {
	if strings.HasPrefix(address, "!") {
		return address, nil
	}
	if !strings.HasPrefix(address, "#") {
		return "", &SendError{Class: ClassBlock, Reason: "a room is named by its id (!…) or an alias (#…:server)"}
	}
	var out mautrix.RespAliasResolve
	err := c.ask(ctx, request{method: http.MethodGet, path: v3("directory", "room", address)}, &out)
	if hasClass(err, ClassBlock, ClassDead) {
		return "", reclassify(err, ClassBlock, "the homeserver does not know the alias")
	}
	if err == nil && out.RoomID == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	return out.RoomID.String(), err
}

// Join accepts an invitation or joins a public room.
func (c *Client) Join(ctx context.Context, roomID string) error {
	return c.join(ctx, roomID, serverOf(roomID))
}

// join joins a room through a server, if via names one.
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
	c.rooms.update(roomID, func(k *room) { k.checked = time.Time{} })
	return nil
}

func joinRefused(err error) error {
	switch {
	case !hasClass(err, ClassBlock, ClassDead):
		return err
	case hasCode(err, "M_FORBIDDEN"):
		return reclassify(err, ClassBlock, "the bot is not in the room and may not enter: invite it")
	}
	return reclassify(err, ClassBlock, "the bot cannot enter the room: is its id right?")
}

// serverOf returns the server of an identifier, or "".
func serverOf(id string) string {
	_, server, _ := strings.Cut(id, ":")
	return server
}

// Joined returns the ids of the rooms that the bot is in.
func (c *Client) Joined(ctx context.Context) ([]string, error) {
	var out mautrix.RespJoinedRooms
	err := c.call(ctx, request{method: http.MethodGet, path: v3("joined_rooms"), limit: maxListAnswer}, &out)
	rooms := make([]string, len(out.JoinedRooms))
	for i, roomID := range out.JoinedRooms {
		rooms[i] = roomID.String()
	}
	return rooms, err
}

// membership returns the membership of a user in a room that the bot is in: join, invite, leave, ban, knock, or "" for none.
func (c *Client) membership(ctx context.Context, roomID, user string) (string, error) {
	var member event.MemberEventContent
	if _, err := c.roomState(ctx, roomID, "m.room.member", user, &member); err != nil {
		return "", c.notIn(err)
	}
	return string(member.Membership), nil
}

// Info returns what the homeserver knows about a room, whether the bot is in it or not.
func (c *Client) Info(ctx context.Context, roomID string) (RoomInfo, error) {
	info := RoomInfo{RoomID: roomID}
	s, err := c.current()
	if err != nil {
		return info, err
	}
	var member event.MemberEventContent
	_, err = c.roomState(ctx, roomID, "m.room.member", s.UserID, &member)
	if hasClass(err, ClassBlock) {
		p, _ := c.joins.Of(roomID)
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
	return c.describe(ctx, info, s.UserID)
}

// describe completes the info of a room that the bot is in.
func (c *Client) describe(ctx context.Context, info RoomInfo, me string) (RoomInfo, error) {
	c.rooms.forgetCheck(info.RoomID) // the caller wants the current state
	standing, err := c.standing(ctx, info.RoomID)
	if err != nil {
		return info, err
	}
	info.Encrypted, info.ReplaceBy = standing.encrypted, standing.replacedBy
	var name event.RoomNameEventContent
	var alias event.CanonicalAliasEventContent
	for kind, out := range map[string]any{"m.room.name": &name, "m.room.canonical_alias": &alias} {
		if _, err := c.roomState(ctx, info.RoomID, kind, "", out); err != nil {
			return info, err
		}
	}
	info.Name, info.Alias = line(name.Name), alias.Alias.String()
	rights, err := c.rights(ctx, info.RoomID, me)
	info.Writable, info.Notifies = rights.Write, rights.Notify
	return info, err
}

// nameFilter selects the state that JoinedRooms needs. An event is in the timeline or in the state, never in both.
const nameFilter = `{"presence":{"not_types":["*"]},"account_data":{"not_types":["*"]},"room":{"ephemeral":{"not_types":["*"]},"account_data":{"not_types":["*"]},` +
	`"timeline":{"limit":1,"types":["m.room.name","m.room.canonical_alias","m.room.encryption"]},` +
	`"state":{"lazy_load_members":true,"types":["m.room.name","m.room.canonical_alias","m.room.encryption"]}}}`

// JoinedRooms returns the rooms that the bot is in with names, aliases, and encryption, sorted by id, in one request. Info has
// the bot's rights.
func (c *Client) JoinedRooms(ctx context.Context) ([]RoomInfo, error) {
	var answer syncAnswer
	query := url.Values{"filter": {nameFilter}, "timeout": {"0"}, "set_presence": {"offline"}}
	if err := c.call(ctx, request{method: http.MethodGet, path: v3("sync"), query: query, limit: maxSyncAnswer}, &answer); err != nil {
		return nil, err
	}
	all := make([]RoomInfo, 0, len(answer.Rooms.Join))
	for id, joined := range answer.Rooms.Join {
		info := RoomInfo{RoomID: id.String(), Joined: true}
		for _, part := range [][]*event.Event{joined.State.Events, joined.Timeline.Events} {
			for _, e := range part {
				switch e.Type.Type {
				case "m.room.name":
					info.Name = line(field(&e.Content, "name"))
				case "m.room.canonical_alias":
					info.Alias = field(&e.Content, "alias")
				case "m.room.encryption":
					info.Encrypted = info.Encrypted || encryptionRules(e.Content.VeryRaw) != nil
				}
			}
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b RoomInfo) int { return cmp.Compare(a.RoomID, b.RoomID) })
	return all, nil
}
