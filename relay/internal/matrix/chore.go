package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/relay"
)

// maxChores bounds how many rooms to enter are remembered. Strangers can fill that
// with their invitations; others take the places of theirs.
const maxChores = 500

// chore is a room to enter: by invitation, or because it replaces another.
type chore struct {
	Inviter  string `json:"inviter,omitempty"`
	Replaces string `json:"replaces,omitempty"`
	Via      string `json:"via,omitempty"`

	next     time.Time
	failures int
	stranger bool // the inviter was found to be nobody's
}

// chores are done beside sync: entering a room can take a minute. They are kept
// over restarts, since sync tells of an invitation once.
type chores struct {
	mu     sync.Mutex
	open   map[string]*chore // by room
	loaded bool
	wake   chan struct{}
}

func newChores() chores { return chores{open: map[string]*chore{}, wake: make(chan struct{}, 1)} }

// makePlace tells whether there is place for one more. c.mu is held.
func (c *chores) makePlace() bool {
	if len(c.open) < maxChores {
		return true
	}
	for roomID, known := range c.open {
		if known.stranger && known.Replaces == "" {
			delete(c.open, roomID)
			return true
		}
	}
	return false
}

// addChore joins what is known already: an invitation to a room that replaces another.
func (c *Client) addChore(roomID string, n chore) {
	c.chores.mu.Lock()
	defer c.chores.mu.Unlock()
	known := c.chores.open[roomID]
	if known == nil {
		if !c.chores.makePlace() {
			c.log.Warn("too many rooms are to be entered; one is forgotten", zap.String("room", roomID), zap.String("inviter", n.Inviter))
			return
		}
		known = &chore{}
		c.chores.open[roomID] = known
	}
	if n.Inviter != "" {
		known.Inviter, known.stranger = n.Inviter, false
	}
	if n.Replaces != "" {
		known.Replaces = n.Replaces
	}
	if n.Via != "" {
		known.Via = n.Via
	}
	known.next, known.failures = time.Time{}, 0
	select {
	case c.chores.wake <- struct{}{}:
	default:
	}
}

// dropChore forgets a room that is entered, or that cannot be.
func (c *Client) dropChore(ctx context.Context, roomID string) {
	c.chores.mu.Lock()
	known := c.chores.open[roomID]
	// That the room replaces another is still to be told.
	if known == nil || known.Replaces != "" {
		c.chores.mu.Unlock()
		return
	}
	delete(c.chores.open, roomID)
	c.chores.mu.Unlock()
	c.saveChores(ctx)
}

// invited tells whether an invitation to the room stands.
func (c *Client) invited(roomID string) bool {
	c.chores.mu.Lock()
	defer c.chores.mu.Unlock()
	known := c.chores.open[roomID]
	return known != nil && known.Inviter != ""
}

func (c *Client) takeInvite(ctx context.Context, me, roomID string, state []roomEvent) {
	for _, e := range state {
		if e.Type == "m.room.member" && e.StateKey != nil && *e.StateKey == me && e.membership() == "invite" {
			c.addChore(roomID, chore{Inviter: e.Sender, Via: serverOf(e.Sender)})
			c.saveChores(ctx)
			return
		}
	}
}

// runChores enters rooms until ctx is done. An invitation of a stranger waits: its
// sender may become a user.
func (c *Client) runChores(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.chores.wake:
		case <-tick.C:
		}
		if c.session.Load() == nil {
			continue
		}
		c.loadChores(ctx)
		for roomID, due := range c.dueChores() {
			c.doChore(ctx, roomID, due)
		}
	}
}

// dueChores copies what is to be done now.
func (c *Client) dueChores() map[string]chore {
	c.chores.mu.Lock()
	defer c.chores.mu.Unlock()
	due := map[string]chore{}
	for roomID, known := range c.chores.open {
		if !time.Now().Before(known.next) {
			due[roomID] = *known
		}
	}
	return due
}

func (c *Client) doChore(ctx context.Context, roomID string, due chore) {
	if due.Replaces == "" {
		welcome, err := c.welcome(ctx, due.Inviter)
		if err != nil {
			c.log.Error("it cannot be told who may invite the bot", zap.String("room", roomID), zap.Error(err))
			c.postpone(roomID, due, time.Minute, false)
			return
		}
		if !welcome {
			if due.failures == 0 {
				c.log.Info("an invitation by a stranger waits", zap.String("room", roomID), zap.String("inviter", due.Inviter))
			}
			c.postpone(roomID, due, time.Minute, true)
			return
		}
	}
	err := c.join(ctx, roomID, due.Via)
	if err == nil && due.Replaces != "" {
		err = c.follows(ctx, roomID, due.Replaces)
	}
	if errors.Is(err, errFollowsNot) {
		c.log.Warn("a room is closed in favour of one that does not say that it follows", zap.String("room", due.Replaces), zap.String("other", roomID))
		due.Replaces, err = "", nil
	}
	if err == nil {
		c.entered(ctx, roomID, due)
		return
	}
	wait := min(2*time.Second<<min(due.failures, 10), 10*time.Minute)
	var failed *relay.SendError
	if errors.As(err, &failed) && failed.Class == relay.ClassWait {
		wait = failed.RetryAfter
	}
	if due.failures == 0 {
		c.log.Warn("a room cannot be entered for now", zap.String("room", roomID), zap.Error(err))
	}
	c.postpone(roomID, due, wait+rand.N(wait/4+1), false)
}

// postpone puts off what was tried, unless there is something new to try by now.
func (c *Client) postpone(roomID string, tried chore, wait time.Duration, stranger bool) {
	c.chores.mu.Lock()
	defer c.chores.mu.Unlock()
	if known := c.chores.open[roomID]; known != nil && known.Inviter == tried.Inviter && known.Replaces == tried.Replaces {
		known.next = time.Now().Add(wait)
		known.failures++
		known.stranger = stranger
	}
}

func (c *Client) entered(ctx context.Context, roomID string, done chore) {
	c.log.Info("entered a room", zap.String("room", roomID), zap.String("inviter", done.Inviter), zap.String("replaces", done.Replaces))
	c.chores.mu.Lock()
	delete(c.chores.open, roomID)
	c.chores.mu.Unlock()
	c.saveChores(ctx)
	c.rules.RoomJoined(roomID)
	if done.Replaces != "" {
		c.rules.RoomReplaced(done.Replaces, roomID)
	}
}

// welcome tells whether a person may bring the bot into a room: someone known to
// the relay, or of a configured server.
func (c *Client) welcome(ctx context.Context, inviter string) (bool, error) {
	if slices.Contains(c.options.InviteServers, serverOf(inviter)) {
		return true, nil
	}
	users, err := c.rules.MatrixUsers(ctx)
	return slices.Contains(users, inviter), err
}

// moved enters the room that took the place of another. The message that wanted
// to go to the old one is to be tried again, there.
func (c *Client) moved(ctx context.Context, oldID, newID string) error {
	c.chores.mu.Lock()
	known := c.chores.open[newID]
	var due chore
	if known != nil {
		due = *known
	}
	c.chores.mu.Unlock()
	if due.Via == "" {
		due.Via = serverOf(oldID)
	}
	due.Replaces = oldID
	err := c.join(ctx, newID, due.Via)
	if err == nil {
		err = c.follows(ctx, newID, oldID)
	}
	if errors.Is(err, errFollowsNot) {
		return &relay.SendError{Class: relay.ClassPark, Reason: "the room was closed in favour of " + newID + ", which does not say that it follows: give the application another room"}
	}
	if err == nil {
		c.entered(ctx, newID, due)
		return &relay.SendError{Class: relay.ClassSettle, RetryAfter: time.Second, Reason: "the room was upgraded; the message goes to " + newID}
	}
	c.addChore(newID, due)
	var failed *relay.SendError
	if errors.As(err, &failed) && failed.Class == relay.ClassPark {
		stuck := *failed
		stuck.Reason = "the room was upgraded to " + newID + ", which the bot may not enter: invite it there"
		return &stuck
	}
	return err
}

// errFollowsNot says that a room does not name the one that it is to replace.
var errFollowsNot = errors.New("the room does not say that it follows the other")

// follows makes sure that a room was made to replace another: whoever may close a room
// could else send its messages to a room of others (client-server API, room upgrades:
// predecessor of m.room.create).
func (c *Client) follows(ctx context.Context, newID, oldID string) error {
	var create struct {
		Predecessor struct {
			RoomID string `json:"room_id"`
		} `json:"predecessor"`
	}
	if _, err := c.state(ctx, newID, "m.room.create", &create); err != nil {
		return err
	}
	if create.Predecessor.RoomID != oldID {
		return errFollowsNot
	}
	return nil
}

// loadChores brings back what the last run left, once.
func (c *Client) loadChores(ctx context.Context) {
	c.chores.mu.Lock()
	defer c.chores.mu.Unlock()
	if c.chores.loaded {
		return
	}
	text, err := c.rules.Setting(ctx, settingInvites)
	if err != nil {
		return
	}
	c.chores.loaded = true
	kept := map[string]*chore{}
	if text == "" || json.Unmarshal([]byte(text), &kept) != nil {
		return
	}
	for roomID, k := range kept {
		if c.chores.open[roomID] == nil && k != nil {
			c.chores.open[roomID] = k
		}
	}
}

func (c *Client) saveChores(ctx context.Context) {
	c.loadChores(ctx)
	c.chores.mu.Lock()
	text, err := json.Marshal(c.chores.open)
	c.chores.mu.Unlock()
	if err == nil {
		err = c.rules.SetSetting(ctx, settingInvites, string(text))
	}
	if err != nil {
		c.log.Warn("invitations cannot be stored", zap.Error(err))
	}
}
