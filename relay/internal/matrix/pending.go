package matrix

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// leaveWithin bounds the attempt to leave a room that is no successor, also during a shutdown.
const leaveWithin = 10 * time.Second

// maxPendingJoins bounds the pending joins. Strangers' invitations can fill it; others evict those.
const maxPendingJoins = 500

// pendingJoin is a room to join, by invitation or as the successor of another, with its attempts so far.
type pendingJoin struct {
	store.PendingJoin
	next     time.Time
	failures int
	stranger bool // the inviter is not a user
}

// pendingJoins are the rooms to join. They are stored, because sync shows an invitation once, and joined beside sync, because a
// join may take a minute.
type pendingJoins struct {
	mu     sync.Mutex
	byRoom map[string]*pendingJoin
	wake   chan struct{}
}

func newPendingJoins() pendingJoins {
	return pendingJoins{byRoom: map[string]*pendingJoin{}, wake: make(chan struct{}, 1)}
}

// loadPending loads the pending joins of the last run.
func (c *Client) loadPending(ctx context.Context) error {
	kept, err := c.store.PendingJoins(ctx)
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

// addPending adds a pending join or completes a known one, and retries it now.
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
	err := c.store.SavePendingJoin(ctx, row)
	if evicted != "" {
		err = errors.Join(err, c.store.DeletePendingJoin(ctx, evicted))
	}
	c.warnPending(err)
	select {
	case c.pending.wake <- struct{}{}:
	default:
	}
}

// makePlace evicts a stranger's invitation if the table is full. The caller must hold p.mu.
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

// dropPending removes a room that was joined or an invitation that was withdrawn. A successor stays until [Client.joined].
func (c *Client) dropPending(ctx context.Context, roomID string) {
	c.pending.mu.Lock()
	p := c.pending.byRoom[roomID]
	if p == nil || p.Replaces != "" {
		c.pending.mu.Unlock()
		return
	}
	delete(c.pending.byRoom, roomID)
	c.pending.mu.Unlock()
	c.warnPending(c.store.DeletePendingJoin(ctx, roomID))
}

func (c *Client) warnPending(err error) {
	if err != nil {
		c.log.Warn("cannot store the pending joins", zap.Error(err))
	}
}

// pendingOf returns the pending join of a room.
func (c *Client) pendingOf(roomID string) (p store.PendingJoin, ok bool) {
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	if known := c.pending.byRoom[roomID]; known != nil {
		return known.PendingJoin, true
	}
	return store.PendingJoin{RoomID: roomID}, false
}

// runPending joins rooms until ctx is done. A stranger's invitation stays pending, because its sender may become a user.
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

// duePending returns copies of the joins that are due.
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
		allowed, err := c.mayInvite(ctx, due.Inviter)
		if err != nil {
			c.log.Error("cannot read who may invite the bot", zap.String("room", due.RoomID), zap.Error(err))
			c.postpone(due, time.Minute, false)
			return
		}
		if !allowed {
			if due.failures == 0 {
				c.log.Info("an invitation from an unknown user stays pending", zap.String("room", due.RoomID), zap.String("inviter", due.Inviter))
			}
			c.postpone(due, time.Minute, true)
			return
		}
	}
	var err error
	if due.Replaces == "" {
		err = c.join(ctx, due.RoomID, due.Via)
	} else {
		err = c.joinSuccessor(ctx, due.Replaces, due.RoomID, due.Via)
	}
	if errors.Is(err, errNotSuccessor) {
		c.log.Warn("a room names a successor that does not name it as predecessor", zap.String("room", due.Replaces), zap.String("successor", due.RoomID))
		c.dropSuccessor(ctx, due.RoomID)
		return
	}
	if err == nil {
		if due.Replaces != "" && c.emit(ctx, Replaced{due.Replaces, due.RoomID}) != nil {
			return // ctx is done; emitted after the next start
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

// postpone schedules the next attempt, unless the join changed since.
func (c *Client) postpone(tried pendingJoin, wait time.Duration, stranger bool) {
	c.pending.mu.Lock()
	defer c.pending.mu.Unlock()
	if p := c.pending.byRoom[tried.RoomID]; p != nil && p.Inviter == tried.Inviter && p.Replaces == tried.Replaces {
		p.next = time.Now().Add(wait)
		p.failures++
		p.stranger = stranger
	}
}

// joined removes a pending join that succeeded. Sync shows the room from now on.
func (c *Client) joined(ctx context.Context, p store.PendingJoin) {
	c.log.Info("joined a room", zap.String("room", p.RoomID), zap.String("inviter", p.Inviter), zap.String("replaces", p.Replaces))
	c.pending.mu.Lock()
	delete(c.pending.byRoom, p.RoomID)
	c.pending.mu.Unlock()
	c.warnPending(c.store.DeletePendingJoin(ctx, p.RoomID))
}

// mayInvite reports whether the bot accepts an invitation: from a user of the relay, or from anybody on a configured server.
func (c *Client) mayInvite(ctx context.Context, inviter string) (bool, error) {
	if slices.Contains(c.options.InviteServers, serverOf(inviter)) {
		return true, nil
	}
	users, err := c.store.MatrixUsers(ctx)
	return slices.Contains(users, inviter), err
}

// moved joins the successor of a room. Nothing was sent; the error names the room for the next attempt.
func (c *Client) moved(ctx context.Context, oldID, newID string) error {
	p, _ := c.pendingOf(newID)
	if p.Via == "" {
		p.Via = serverOf(oldID)
	}
	p.Replaces = oldID
	err := c.joinSuccessor(ctx, oldID, newID, p.Via)
	if errors.Is(err, errNotSuccessor) {
		c.rooms.forgetCheck(oldID) // sync doesn't show that a tombstone was redacted
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
	if hasClass(err, ClassBlock) {
		return withReason(err, "the room was upgraded to "+newID+", which the bot may not join: invite it there")
	}
	return err
}

// errNotSuccessor reports that a room does not name the other as its predecessor.
var errNotSuccessor = errors.New("the room does not name the other as its predecessor")

// joinSuccessor joins the room that a tombstone names. Anybody who may close a room can name any public room, so the bot only
// stays where the room names the old one as its predecessor (client-server API, room upgrades).
func (c *Client) joinSuccessor(ctx context.Context, oldID, newID, via string) error {
	err := c.checkPredecessor(ctx, newID, oldID)
	unknown := hasClass(err, ClassBlock, ClassDead) // neither a member nor allowed to read it
	if err != nil && !unknown {
		return err
	}
	if err := c.join(ctx, newID, via); err != nil || !unknown {
		return err
	}
	if err = c.checkPredecessor(ctx, newID, oldID); err == nil {
		return nil
	}
	// The next attempt would find the bot in the room and could not tell that it joined for the tombstone only.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	if leaveErr := c.ask(ctx, request{method: http.MethodPost, path: v3("rooms", newID, "leave")}, nil); leaveErr != nil {
		c.log.Warn("the bot cannot leave a room that it joined as a successor: remove it there", zap.String("room", newID), zap.Error(leaveErr))
	}
	return err
}

func (c *Client) checkPredecessor(ctx context.Context, newID, oldID string) error {
	var create struct {
		Predecessor struct {
			RoomID string `json:"room_id"`
		} `json:"predecessor"`
	}
	if _, err := c.roomState(ctx, newID, "m.room.create", &create); err != nil {
		return err
	}
	if create.Predecessor.RoomID != oldID {
		return errNotSuccessor
	}
	return nil
}

// dropSuccessor forgets that a room replaces another. An invitation to it stays.
func (c *Client) dropSuccessor(ctx context.Context, roomID string) {
	c.pending.mu.Lock()
	p := c.pending.byRoom[roomID]
	if p != nil {
		p.Replaces = ""
	}
	invited := p != nil && p.Inviter != ""
	if invited {
		row := p.PendingJoin
		c.pending.mu.Unlock()
		c.warnPending(c.store.SavePendingJoin(ctx, row))
		return
	}
	c.pending.mu.Unlock()
	c.dropPending(ctx, roomID)
}
