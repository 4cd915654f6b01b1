package matrix

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// maxPendingJoins bounds how many pending joins are kept. Strangers can fill that
// with their invitations; others take the places of theirs.
const maxPendingJoins = 500

// pendingJoin is a room to join, by invitation or because it replaces another, with
// how earlier attempts went.
type pendingJoin struct {
	store.PendingJoin
	next     time.Time
	failures int
	stranger bool // the inviter is nobody's
}

// pendingJoins are worked off beside sync, since a join can take a minute. They are
// stored, because sync shows an invitation once.
type pendingJoins struct {
	mu     sync.Mutex
	byRoom map[string]*pendingJoin
	wake   chan struct{}
}

func newPendingJoins() pendingJoins {
	return pendingJoins{byRoom: map[string]*pendingJoin{}, wake: make(chan struct{}, 1)}
}

// loadPending reads what the last run left.
func (c *Client) loadPending(ctx context.Context) error {
	kept, err := c.state.PendingJoins(ctx)
	if err != nil {
		return err
	}
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	for _, p := range kept {
		if c.pending.byRoom[p.RoomID] == nil {
			c.pending.byRoom[p.RoomID] = &pendingJoin{PendingJoin: p}
		}
	}
	return nil
}

// addPending adds to what is known already, for instance an invitation to a room that
// replaces another, and lets it be tried now.
func (c *Client) addPending(ctx context.Context, add store.PendingJoin) {
	c.pending.mu.Lock()
	p := c.pending.byRoom[add.RoomID]
	evicted, full := "", false
	if p == nil {
		if evicted, full = c.pending.makePlace(); full {
			c.pending.mu.Unlock()
			c.log.Warn("too many pending joins: one is dropped", zap.String("room", add.RoomID), zap.String("inviter", add.Inviter))
			return
		}
		p = &pendingJoin{PendingJoin: store.PendingJoin{RoomID: add.RoomID}}
		c.pending.byRoom[add.RoomID] = p
	}
	if add.Inviter != "" {
		p.Inviter, p.stranger = add.Inviter, false
	}
	if add.Replaces != "" {
		p.Replaces = add.Replaces
	}
	if add.Via != "" {
		p.Via = add.Via
	}
	p.next, p.failures = time.Time{}, 0
	row := p.PendingJoin
	c.pending.mu.Unlock()
	err := c.state.SavePendingJoin(ctx, row)
	if evicted != "" {
		err = errors.Join(err, c.state.DeletePendingJoin(ctx, evicted))
	}
	c.warnPending(err)
	select {
	case c.pending.wake <- struct{}{}:
	default:
	}
}

// makePlace makes sure that there is place for one more: it drops a stranger's
// invitation if need be. p.mu is held.
func (p *pendingJoins) makePlace() (dropped string, full bool) {
	if len(p.byRoom) < maxPendingJoins {
		return "", false
	}
	for roomID, known := range p.byRoom {
		if known.stranger && known.Replaces == "" {
			delete(p.byRoom, roomID)
			return roomID, false
		}
	}
	return "", true
}

// dropPending forgets a room that is joined, or an invitation that was taken back.
// That a room replaces another is kept until [Client.joined] has told it.
func (c *Client) dropPending(ctx context.Context, roomID string) {
	c.pending.mu.Lock()
	p := c.pending.byRoom[roomID]
	if p == nil || p.Replaces != "" {
		c.pending.mu.Unlock()
		return
	}
	delete(c.pending.byRoom, roomID)
	c.pending.mu.Unlock()
	c.warnPending(c.state.DeletePendingJoin(ctx, roomID))
}

func (c *Client) warnPending(err error) {
	if err != nil {
		c.log.Warn("cannot store the pending joins", zap.Error(err))
	}
}

// pendingOf returns what is known of a room to join.
func (c *Client) pendingOf(roomID string) (p store.PendingJoin, ok bool) {
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	if known := c.pending.byRoom[roomID]; known != nil {
		return known.PendingJoin, true
	}
	return store.PendingJoin{RoomID: roomID}, false
}

// runPending joins rooms until ctx is done. An invitation of a stranger stays pending:
// its sender may become a user.
func (c *Client) runPending(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.pending.wake:
		case <-tick.C:
		}
		if c.session.Load() == nil {
			continue
		}
		for _, due := range c.duePending() {
			c.tryPending(ctx, due)
		}
	}
}

// duePending copies what is due.
func (c *Client) duePending() (due []pendingJoin) {
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	for _, known := range c.pending.byRoom {
		if !time.Now().Before(known.next) {
			due = append(due, *known)
		}
	}
	return due
}

func (c *Client) tryPending(ctx context.Context, due pendingJoin) {
	if due.Replaces == "" {
		welcome, err := c.welcome(ctx, due.Inviter)
		if err != nil {
			c.log.Error("cannot read who may invite the bot", zap.String("room", due.RoomID), zap.Error(err))
			c.postpone(due, time.Minute, false)
			return
		}
		if !welcome {
			if due.failures == 0 {
				c.log.Info("an invitation from an unknown user stays pending", zap.String("room", due.RoomID), zap.String("inviter", due.Inviter))
			}
			c.postpone(due, time.Minute, true)
			return
		}
	}
	err := c.join(ctx, due.RoomID, due.Via)
	if err == nil && due.Replaces != "" {
		err = c.follows(ctx, due.RoomID, due.Replaces)
	}
	if errors.Is(err, errFollowsNot) {
		c.log.Warn("a room was replaced by one that does not name it as its predecessor", zap.String("room", due.Replaces), zap.String("other", due.RoomID))
		due.Replaces, err = "", nil
	}
	if err == nil {
		if due.Replaces != "" && c.emit(ctx, Replaced{due.Replaces, due.RoomID}) != nil {
			return // ctx is done: told after the next start
		}
		c.joined(ctx, due.PendingJoin)
		return
	}
	wait := min(2*time.Second<<min(due.failures, 10), 10*time.Minute)
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassWait {
		wait = failed.RetryAfter
	}
	if due.failures == 0 {
		c.log.Warn("cannot join a room for now", zap.String("room", due.RoomID), zap.Error(err))
	}
	c.postpone(due, wait+rand.N(wait/4+1), false)
}

// postpone puts off what was tried, unless there is something new to try by now.
func (c *Client) postpone(tried pendingJoin, wait time.Duration, stranger bool) {
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	if p := c.pending.byRoom[tried.RoomID]; p != nil && p.Inviter == tried.Inviter && p.Replaces == tried.Replaces {
		p.next = time.Now().Add(wait)
		p.failures++
		p.stranger = stranger
	}
}

// joined ends a pending join that has succeeded. Sync shows the room from now on.
func (c *Client) joined(ctx context.Context, p store.PendingJoin) {
	c.log.Info("joined a room", zap.String("room", p.RoomID), zap.String("inviter", p.Inviter), zap.String("replaces", p.Replaces))
	c.pending.mu.Lock()
	delete(c.pending.byRoom, p.RoomID)
	c.pending.mu.Unlock()
	c.warnPending(c.state.DeletePendingJoin(ctx, p.RoomID))
}

// welcome reports whether a person may bring the bot into a room: someone known to
// the relay, or of a configured server.
func (c *Client) welcome(ctx context.Context, inviter string) (bool, error) {
	if slices.Contains(c.options.InviteServers, serverOf(inviter)) {
		return true, nil
	}
	users, err := c.state.MatrixUsers(ctx)
	return slices.Contains(users, inviter), err
}

// moved joins the room that took the place of another. Nothing was sent: the answer
// says where to try the message again.
func (c *Client) moved(ctx context.Context, oldID, newID string) error {
	p, _ := c.pendingOf(newID)
	if p.Via == "" {
		p.Via = serverOf(oldID)
	}
	p.Replaces = oldID
	err := c.join(ctx, newID, p.Via)
	if err == nil {
		err = c.follows(ctx, newID, oldID)
	}
	if errors.Is(err, errFollowsNot) {
		return &SendError{Class: ClassBlock, Reason: "the room was replaced by " + newID + ", which does not name it as its predecessor: give the application another room"}
	}
	if err == nil {
		c.joined(ctx, p)
		return &SendError{
			Class: ClassReconcile, RetryAfter: time.Second, Replaced: &Replaced{oldID, newID},
			Reason: "the room was upgraded; the message goes to " + newID,
		}
	}
	c.addPending(ctx, p)
	var failed *SendError
	if errors.As(err, &failed) && failed.Class == ClassBlock {
		stuck := *failed
		stuck.Reason = "the room was upgraded to " + newID + ", which the bot may not join: invite it there"
		return &stuck
	}
	return err
}

// errFollowsNot says that a room does not name the one that it is to replace.
var errFollowsNot = errors.New("the room does not name the other as its predecessor")

// follows makes sure that a room was made to replace another: whoever may close a room
// could else send its messages to a room of others (client-server API, room upgrades:
// predecessor of m.room.create).
func (c *Client) follows(ctx context.Context, newID, oldID string) error {
	var create struct {
		Predecessor struct {
			RoomID string `json:"room_id"`
		} `json:"predecessor"`
	}
	if _, err := c.roomState(ctx, newID, "m.room.create", &create); err != nil {
		return err
	}
	if create.Predecessor.RoomID != oldID {
		return errFollowsNot
	}
	return nil
}
