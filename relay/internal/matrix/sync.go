package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap"

	"slipway/relay/internal/format"
	"slipway/relay/internal/relay"
)

const (
	longPoll     = 30 * time.Second
	saveInterval = 10 * time.Second // between writes of the position: replaying a little does no harm
	maxSyncWait  = 30 * time.Second
)

// filter asks for the events that matter here, with those fields only: a busy
// room's talk is not ours to read.
const filter = `{"presence":{"not_types":["*"]},"account_data":{"not_types":["*"]},` +
	`"event_fields":["type","state_key","sender","event_id","unsigned.transaction_id","unsigned.prev_content.membership",` +
	`"content.membership","content.reason","content.name","content.algorithm","content.replacement_room","content.io\\.slipway\\.relay"],` +
	`"room":{"account_data":{"not_types":["*"]},"ephemeral":{"not_types":["*"]},` +
	`"state":{"lazy_load_members":true,"types":["m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels"]},` +
	`"timeline":{"limit":50,"lazy_load_members":true,"types":["m.room.message","m.room.redaction","m.room.member","m.room.encryption","m.room.tombstone","m.room.name","m.room.power_levels"]}}}`

// syncAnswer is the part of GET /sync that is read.
type syncAnswer struct {
	NextBatch string `json:"next_batch"`
	Rooms     struct {
		Join   map[string]roomUpdate `json:"join"`
		Leave  map[string]roomUpdate `json:"leave"`
		Invite map[string]struct {
			State events `json:"invite_state"`
		} `json:"invite"`
	} `json:"rooms"`
}

type roomUpdate struct {
	State    events `json:"state"`
	Timeline events `json:"timeline"`
}

type events struct {
	Events []roomEvent `json:"events"`
}

type roomEvent struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender"`
	StateKey *string         `json:"state_key"`
	Content  json.RawMessage `json:"content"`
	Unsigned struct {
		TxnID       string `json:"transaction_id"`
		PrevContent struct {
			Membership string `json:"membership"`
		} `json:"prev_content"`
	} `json:"unsigned"`
}

// position is how far sync has come.
type position struct {
	since string
	saved time.Time
	dirty bool
	stuck bool // it cannot be stored, and that has been said
}

// Run keeps the session and follows the rooms until ctx is done. The homeserver
// need not be there; there is nothing to return.
func (c *Client) Run(ctx context.Context) {
	var chores sync.WaitGroup
	chores.Go(func() { c.runChores(ctx) })
	defer chores.Wait()
	var at position
	defer c.savePosition(context.WithoutCancel(ctx), &at)
	failures := 0
	for ctx.Err() == nil {
		err := c.step(ctx, &at, failures > 0)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		c.rooms.setSyncing(false)
		if failures == 1 && ctx.Err() == nil && !relogin(err) {
			c.log.Warn("the rooms cannot be followed for now", zap.Error(err))
		}
		c.pause(ctx, syncWait(err, failures))
	}
}

// step logs in if need be and takes one answer of sync.
func (c *Client) step(ctx context.Context, at *position, recovering bool) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	if at.since == "" {
		var err error
		if at.since, err = c.rules.Setting(ctx, settingSync); err != nil {
			return err
		}
	}
	poll := min(longPoll, c.options.Timeout/2)
	if recovering || at.since == "" {
		poll = 0
	}
	begin := time.Now()
	answer, err := c.sync(ctx, at.since, poll)
	if err != nil {
		return c.forgetBadPosition(ctx, at, err)
	}
	quiet := c.take(ctx, at.since == "", answer)
	at.dirty = at.dirty || at.since != answer.NextBatch
	at.since = answer.NextBatch
	c.rooms.setSyncing(true)
	if recovering {
		c.rules.Resume()
	}
	if !quiet || time.Since(at.saved) > saveInterval {
		c.savePosition(ctx, at)
	}
	if len(answer.Rooms.Join) == 0 && quiet && time.Since(begin) < poll/20 {
		c.pause(ctx, time.Second) // a server that never waits is not to be hammered
	}
	return nil
}

func (c *Client) sync(ctx context.Context, since string, poll time.Duration) (answer syncAnswer, err error) {
	query := url.Values{"filter": {filter}, "timeout": {strconv.FormatInt(poll.Milliseconds(), 10)}, "set_presence": {"offline"}}
	if since != "" {
		query.Set("since", since)
	}
	err = c.call(ctx, request{method: http.MethodGet, path: v3("sync"), query: query}, &answer)
	if err == nil && answer.NextBatch == "" {
		err = notJSON(http.StatusOK, nil, errNoField)
	}
	return answer, err
}

// forgetBadPosition begins anew when the homeserver does not know the position
// any more, as after its restore from a backup.
func (c *Client) forgetBadPosition(ctx context.Context, at *position, err error) error {
	var failed *relay.SendError
	if errors.As(err, &failed) && at.since != "" && (failed.Class == relay.ClassDead || failed.Class == relay.ClassPark) {
		c.log.Warn("the homeserver does not know the sync position: beginning anew", zap.Error(err))
		*at = position{}
		if err := c.rules.SetSetting(ctx, settingSync, ""); err != nil {
			return err
		}
	}
	return err
}

func (c *Client) savePosition(ctx context.Context, at *position) {
	if !at.dirty {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.rules.SetSetting(ctx, settingSync, at.since); err != nil {
		if !at.stuck {
			c.log.Warn("the sync position cannot be stored", zap.Error(err))
		}
		at.stuck = true
		return
	}
	at.saved, at.dirty, at.stuck = time.Now(), false, false
}

// relogin tells whether only a new session is missing, which others say in the log.
func relogin(err error) bool {
	var failed *relay.SendError
	return errors.As(err, &failed) && failed.Class == relay.ClassRelogin
}

func syncWait(err error, failures int) time.Duration {
	if failures == 1 && relogin(err) {
		return 100 * time.Millisecond // another request is logging in
	}
	var failed *relay.SendError
	if errors.As(err, &failed) && failed.Class == relay.ClassWait {
		return failed.RetryAfter
	}
	wait := min(500*time.Millisecond<<min(failures-1, 10), maxSyncWait)
	return wait/2 + rand.N(wait/2)
}

// pause waits; a session that ends cuts it short, so that the next one begins at once.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-c.expired:
	}
}

// take tells the rules what an answer of sync says. quiet means that nothing in it
// would be missed if it were not stored that it was seen.
func (c *Client) take(ctx context.Context, first bool, answer syncAnswer) (quiet bool) {
	me := c.UserID()
	quiet = len(answer.Rooms.Invite) == 0 && len(answer.Rooms.Leave) == 0
	for id, invite := range answer.Rooms.Invite {
		c.takeInvite(ctx, me, id, invite.State.Events)
	}
	for id, left := range answer.Rooms.Leave {
		c.takeLeave(ctx, me, id, left)
	}
	for id, joined := range answer.Rooms.Join {
		entered := first
		for _, part := range [][]roomEvent{joined.State.Events, joined.Timeline.Events} {
			for _, e := range part {
				if e.StateKey == nil {
					c.takeEcho(me, id, e)
					continue
				}
				quiet = false
				entered = entered || e.Type == "m.room.member" && *e.StateKey == me && e.membership() == "join"
				// New power levels may let the bot speak again.
				entered = entered || e.Type == "m.room.power_levels"
				c.takeState(id, e)
			}
		}
		if entered {
			c.dropChore(ctx, id)
			c.rooms.forgetCheck(id)
			c.rules.RoomJoined(id)
		}
	}
	return quiet
}

func (e roomEvent) membership() string {
	var content struct {
		Membership string `json:"membership"`
	}
	_ = json.Unmarshal(e.Content, &content) // a content that is no object says nothing
	return content.Membership
}

func (c *Client) takeState(roomID string, e roomEvent) {
	switch {
	case *e.StateKey != "":
	case e.Type == "m.room.encryption":
		c.rooms.update(roomID, func(k *room) { k.encrypted = true })
		c.rules.RoomEncrypted(roomID)
	case e.Type == "m.room.name":
		var content struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(e.Content, &content) == nil {
			c.rules.RoomNamed(roomID, line(content.Name))
		}
	case e.Type == "m.room.tombstone":
		var content struct {
			Replacement string `json:"replacement_room"`
		}
		if json.Unmarshal(e.Content, &content) == nil && content.Replacement != "" {
			c.rooms.update(roomID, func(k *room) { k.replacedBy = content.Replacement })
			c.addChore(content.Replacement, chore{Replaces: roomID, Via: serverOf(e.Sender)})
		}
	}
}

// takeEcho recognises an event of ours: by its transaction id, which only the
// device that sent it sees, or by the marker in its content.
func (c *Client) takeEcho(me, roomID string, e roomEvent) {
	if e.Sender != me {
		return
	}
	txn := e.Unsigned.TxnID
	if txn == "" {
		txn = format.MarkerOf(e.Content)
	}
	if txn != "" {
		c.rules.Echo(roomID, txn, e.ID)
	}
}

func (c *Client) takeLeave(ctx context.Context, me, roomID string, left roomUpdate) {
	c.dropChore(ctx, roomID)
	c.rooms.forgetCheck(roomID)
	reason := "the bot is not in the room any more"
	for _, part := range [][]roomEvent{left.State.Events, left.Timeline.Events} {
		for _, e := range part {
			if e.Type != "m.room.member" || e.StateKey == nil || *e.StateKey != me {
				continue
			}
			if e.Unsigned.PrevContent.Membership == "invite" {
				return // an invitation was taken back
			}
			reason = leftBecause(me, e)
		}
	}
	c.rules.RoomLeft(roomID, reason)
}

func leftBecause(me string, e roomEvent) string {
	var content struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(e.Content, &content) // no reason was given
	how := "the bot was removed from the room by " + e.Sender
	switch {
	case e.membership() == "ban":
		how = "the bot was banned from the room by " + e.Sender
	case e.Sender == me:
		how = "the bot left the room"
	}
	if content.Reason != "" {
		how += ": " + content.Reason
	}
	return line(how)
}

// maxLine is how much is kept of what others write, in characters.
const maxLine = 300

// line is one readable line of what others write: names and reasons end up in logs,
// pages and the database.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxLine {
		return string(runes[:maxLine]) + "…"
	}
	return text
}
