// Package joins keeps the rooms that the bot is to join: those it is invited to, and the successors of rooms that were upgraded.
package joins

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// maxRooms bounds the list. Strangers' invitations can fill it; others evict those.
const maxRooms = 500

// ErrNotSuccessor reports that a room does not name the other as its predecessor.
var ErrNotSuccessor = errors.New("the room does not name the other as its predecessor")

// Options configure a [List].
type Options struct {
	Store   *store.Store
	Log     *zap.Logger
	Servers []string // with users who may invite the bot, besides the relay's users
	// Join joins a room. wait is how long the homeserver asks to wait after an error, 0 if it doesn't.
	Join func(ctx context.Context, p store.PendingJoin) (wait time.Duration, err error)
	// Ready reports whether the bot is logged in.
	Ready func() bool
}

// List holds the rooms to join. They are stored, because sync shows an invitation once, and joined independently of sync, because a join may
// take a minute. It is safe for concurrent use.
type List struct {
	o    Options
	wake chan struct{}

	mu     sync.Mutex
	byRoom map[string]*join
}

// join is a room to join with its attempts so far.
type join struct {
	store.PendingJoin
	next     time.Time
	failures int
	stranger bool // the inviter is not a user
}

// New returns an empty list.
func New(o Options) *List {
	return &List{o: o, byRoom: map[string]*join{}, wake: make(chan struct{}, 1)}
}

// Load replaces the list by the stored one.
func (l *List) Load(ctx context.Context) error {
	kept, err := l.o.Store.PendingJoins(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.byRoom)
	for _, p := range kept {
		l.byRoom[p.RoomID] = &join{PendingJoin: p}
	}
	return nil
}

// Add adds a room or completes a known one, which is tried again now.
func (l *List) Add(ctx context.Context, add store.PendingJoin) {
	l.mu.Lock()
	p := l.byRoom[add.RoomID]
	evicted, full := "", false
	if p == nil {
		if evicted, full = l.makePlace(); full {
			l.mu.Unlock()
			l.o.Log.Warn("too many pending joins: one is dropped", zap.String("room", add.RoomID), zap.String("inviter", add.Inviter))
			return
		}
		p = &join{PendingJoin: store.PendingJoin{RoomID: add.RoomID}}
		l.byRoom[add.RoomID] = p
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
	l.mu.Unlock()
	err := l.o.Store.SavePendingJoin(ctx, row)
	if evicted != "" {
		err = errors.Join(err, l.o.Store.DeletePendingJoin(ctx, evicted))
	}
	l.warn(err)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// makePlace evicts a stranger's invitation if the list is full. The caller must hold l.mu.
func (l *List) makePlace() (dropped string, full bool) {
	if len(l.byRoom) < maxRooms {
		return "", false
	}
	for roomID, known := range l.byRoom {
		if known.stranger && known.Replaces == "" {
			delete(l.byRoom, roomID)
			return roomID, false
		}
	}
	return "", true
}

// Drop removes a room that the bot is in, or an invitation that was withdrawn. A successor stays until [List.Joined].
func (l *List) Drop(ctx context.Context, roomID string) {
	l.mu.Lock()
	p := l.byRoom[roomID]
	drops := p != nil && p.Replaces == ""
	if drops {
		delete(l.byRoom, roomID)
	}
	l.mu.Unlock()
	if drops {
		l.warn(l.o.Store.DeletePendingJoin(ctx, roomID))
	}
}

// Joined removes a room that the bot has joined. Sync shows it from now on.
func (l *List) Joined(ctx context.Context, p store.PendingJoin) {
	l.o.Log.Info("joined a room", zap.String("room", p.RoomID), zap.String("inviter", p.Inviter), zap.String("replaces", p.Replaces))
	l.mu.Lock()
	delete(l.byRoom, p.RoomID)
	l.mu.Unlock()
	l.warn(l.o.Store.DeletePendingJoin(ctx, p.RoomID))
}

func (l *List) warn(err error) {
	if err != nil {
		l.o.Log.Warn("cannot store the pending joins", zap.Error(err))
	}
}

// Of returns what is known of a room to join, and whether it is one.
func (l *List) Of(roomID string) (p store.PendingJoin, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byRoom[roomID]; known != nil {
		return known.PendingJoin, true
	}
	return store.PendingJoin{RoomID: roomID}, false
}

// Run joins rooms until ctx is done. A stranger's invitation stays, because its sender may become a user.
func (l *List) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-tick.C:
		}
		if !l.o.Ready() {
			continue
		}
		for _, due := range l.due() {
			l.try(ctx, due)
		}
	}
}

// due returns copies of the joins that are due.
func (l *List) due() (due []join) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range l.byRoom {
		if !time.Now().Before(known.next) {
			due = append(due, *known)
		}
	}
	return due
}

func (l *List) try(ctx context.Context, due join) {
	if due.Replaces == "" {
		allowed, err := l.mayInvite(ctx, due.Inviter)
		if err != nil {
			l.o.Log.Error("cannot read who may invite the bot", zap.String("room", due.RoomID), zap.Error(err))
			l.postpone(due, time.Minute, false)
			return
		}
		if !allowed {
			if due.failures == 0 {
				l.o.Log.Info("an invitation from an unknown user stays pending", zap.String("room", due.RoomID), zap.String("inviter", due.Inviter))
			}
			l.postpone(due, time.Minute, true)
			return
		}
	}
	wait, err := l.o.Join(ctx, due.PendingJoin)
	switch {
	case err == nil:
		l.Joined(ctx, due.PendingJoin)
		return
	case ctx.Err() != nil: // the next start tries again
		return
	case errors.Is(err, ErrNotSuccessor):
		l.o.Log.Warn("a room names a successor that does not name it as predecessor", zap.String("room", due.Replaces), zap.String("successor", due.RoomID))
		l.dropSuccessor(ctx, due.RoomID)
		return
	}
	if wait == 0 {
		wait = min(2*time.Second<<min(due.failures, 10), 10*time.Minute)
	}
	if due.failures == 0 {
		l.o.Log.Warn("cannot join a room for now", zap.String("room", due.RoomID), zap.Error(err))
	}
	l.postpone(due, wait+rand.N(wait/4+1), false)
}

// postpone schedules the next attempt, unless the join changed since.
func (l *List) postpone(tried join, wait time.Duration, stranger bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.byRoom[tried.RoomID]; p != nil && p.Inviter == tried.Inviter && p.Replaces == tried.Replaces {
		p.next = time.Now().Add(wait)
		p.failures++
		p.stranger = stranger
	}
}

// mayInvite reports whether the bot accepts an invitation: from a user of the relay, or from anybody on a configured server.
func (l *List) mayInvite(ctx context.Context, inviter string) (bool, error) {
	if _, server, _ := strings.Cut(inviter, ":"); slices.Contains(l.o.Servers, server) {
		return true, nil
	}
	users, err := l.o.Store.MatrixUsers(ctx)
	return slices.Contains(users, inviter), err
}

// dropSuccessor forgets that a room replaces another. An invitation to it stays.
func (l *List) dropSuccessor(ctx context.Context, roomID string) {
	l.mu.Lock()
	p := store.PendingJoin{}
	if known := l.byRoom[roomID]; known != nil {
		known.Replaces = ""
		p = known.PendingJoin
	}
	l.mu.Unlock()
	if p.Inviter != "" {
		l.warn(l.o.Store.SavePendingJoin(ctx, p))
		return
	}
	l.Drop(ctx, roomID)
}
