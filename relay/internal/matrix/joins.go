package matrix

import (
	"cmp"
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

const (
	maxRooms = 500 // in the list

	maxAttempts   = 8               // at a time: a homeserver may take a minute for one
	shareOthers   = 4               // …of invitations by others than the relay's users
	shareInviter  = 2               // …of one inviter
	firstAttempt  = 5 * time.Second // bounds the first attempt, and each further one twice as long
	complainEvery = time.Minute
)

// ErrNotSuccessor reports that a room does not name the other as its predecessor.
var ErrNotSuccessor = errors.New("the room does not name the other as its predecessor")

// joinOptions configure a [joinList].
type joinOptions struct {
	Store   *store.Store
	Log     *zap.Logger
	Servers []string // with users who may invite the bot, besides the relay's users
	// Join joins a room. wait is how long the homeserver asks to wait after an error, 0 if it doesn't.
	Join func(ctx context.Context, p store.PendingJoin) (wait time.Duration, err error)
	// Ready reports whether the bot is logged in.
	Ready func() bool
}

// joinList holds the rooms to join. They are stored, because sync reports an invitation once, and joined independently of sync, because a join may
// take a minute. It is safe for concurrent use.
type joinList struct {
	o    joinOptions
	wake chan struct{}

	mu         sync.Mutex
	byRoom     map[string]*join
	added      int            // invitations so far
	trying     map[string]int // attempts by inviter
	others     int            // attempts for others than users
	attempts   int
	complained time.Time
}

// join is a room to join with its attempts so far.
type join struct {
	store.PendingJoin
	next     time.Time
	failures int
	order    int  // of its last invitation
	user     bool // a user of the relay invites, or the room replaces another one
	trying   bool
}

// by returns who the join counts for: the inviter, or the room that is replaced.
func (j *join) by() string { return cmp.Or(j.Inviter, j.Replaces) }

// newJoins returns an empty list.
func newJoins(o joinOptions) *joinList {
	return &joinList{o: o, byRoom: map[string]*join{}, trying: map[string]int{}, wake: make(chan struct{}, 1)}
}

// Load replaces the list by the stored one.
func (l *joinList) Load(ctx context.Context) error {
	kept, err := l.o.Store.PendingJoins(ctx)
	if err != nil {
		return err
	}
	users, err := l.o.Store.MatrixUsers(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.byRoom)
	for _, p := range kept {
		l.added++
		l.byRoom[p.RoomID] = &join{PendingJoin: p, order: l.added, user: p.Replaces != "" || slices.Contains(users, p.Inviter)}
	}
	return nil
}

// Add adds a room or completes a known one, which is tried again now.
func (l *joinList) Add(ctx context.Context, add store.PendingJoin) {
	users, err := l.o.Store.MatrixUsers(ctx)
	l.warn(err)
	l.mu.Lock()
	p, gone := l.byRoom[add.RoomID], l.superseded(add)
	user := add.Replaces != "" || slices.Contains(users, add.Inviter)
	if p == nil {
		if len(l.byRoom)-len(gone) >= maxRooms {
			evicted := l.dispensable(cmp.Or(add.Inviter, add.Replaces), user)
			if evicted == "" {
				l.complain(add)
				l.mu.Unlock()
				return
			}
			gone = append(gone, evicted)
		}
		p = &join{PendingJoin: store.PendingJoin{RoomID: add.RoomID}}
		l.byRoom[add.RoomID] = p
	}
	if add.Inviter != "" {
		p.Inviter = add.Inviter
	}
	if add.Replaces != "" {
		p.Replaces = add.Replaces
	}
	if add.Via != "" {
		p.Via = add.Via
	}
	l.added++
	p.next, p.failures, p.order, p.user = time.Time{}, 0, l.added, user || p.Replaces != ""
	row := p.PendingJoin
	for _, room := range gone {
		delete(l.byRoom, room)
	}
	l.mu.Unlock()
	err = l.o.Store.SavePendingJoin(ctx, row)
	for _, room := range gone {
		err = errors.Join(err, l.o.Store.DeletePendingJoin(ctx, room))
	}
	l.warn(err)
	l.wakeUp()
}

// superseded returns the rooms that were to replace the same one as add does: a room has one successor. The caller must hold l.mu.
func (l *joinList) superseded(add store.PendingJoin) (rooms []string) {
	for _, p := range l.byRoom {
		if add.Replaces != "" && p.Replaces == add.Replaces && p.Inviter == "" && p.RoomID != add.RoomID {
			rooms = append(rooms, p.RoomID)
		}
	}
	return rooms
}

func (l *joinList) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// dispensable returns the room that gives way to another, "" if none does. Users of the relay displace others; among
// equals an inviter with more rooms gives way, or a room whose join failed. The caller must hold l.mu.
func (l *joinList) dispensable(by string, user bool) string {
	counts := l.counts()
	var out *join
	for _, p := range l.byRoom {
		equal := p.user == user && p.by() != by && (p.failures > 0 || counts[p.by()] > counts[by]+1)
		if p.Replaces == "" && (user && !p.user || equal) && (out == nil || counts[p.by()] > counts[out.by()] && p.user == out.user || out.user && !p.user) {
			out = p
		}
	}
	if out == nil {
		return ""
	}
	return out.RoomID
}

// counts returns the number of rooms by inviter. The caller must hold l.mu.
func (l *joinList) counts() map[string]int {
	counts := map[string]int{}
	for _, p := range l.byRoom {
		counts[p.by()]++
	}
	return counts
}

// complain logs once in a while that an invitation is dropped. The caller must hold l.mu.
func (l *joinList) complain(add store.PendingJoin) {
	if time.Since(l.complained) >= complainEvery {
		l.complained = time.Now()
		l.o.Log.Warn("too many pending joins: some are dropped", zap.String("room", add.RoomID), zap.String("inviter", add.Inviter))
	}
}

// Drop removes a room that the bot is in, or an invitation that was withdrawn. A successor stays until [joinList.Joined], without the
// invitation.
func (l *joinList) Drop(ctx context.Context, roomID string) {
	l.mu.Lock()
	p, invited, row := l.byRoom[roomID], false, store.PendingJoin{}
	drops := p != nil && p.Replaces == ""
	if drops {
		delete(l.byRoom, roomID)
	} else if p != nil {
		invited, p.Inviter = p.Inviter != "", ""
		row = p.PendingJoin
	}
	l.mu.Unlock()
	if drops {
		l.warn(l.o.Store.DeletePendingJoin(ctx, roomID))
	} else if invited {
		l.warn(l.o.Store.SavePendingJoin(ctx, row))
	}
}

// Joined removes a room that the bot has joined. Sync shows it from now on.
func (l *joinList) Joined(ctx context.Context, p store.PendingJoin) {
	l.o.Log.Info("joined a room", zap.String("room", p.RoomID), zap.String("inviter", p.Inviter), zap.String("replaces", p.Replaces))
	l.mu.Lock()
	delete(l.byRoom, p.RoomID)
	l.mu.Unlock()
	l.warn(l.o.Store.DeletePendingJoin(ctx, p.RoomID))
}

func (l *joinList) warn(err error) {
	if err != nil {
		l.o.Log.Warn("cannot store the pending joins", zap.Error(err))
	}
}

// Of returns what is known of a room to join, and whether it is one.
func (l *joinList) Of(roomID string) (p store.PendingJoin, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byRoom[roomID]; known != nil {
		return known.PendingJoin, true
	}
	return store.PendingJoin{RoomID: roomID}, false
}

// Run joins rooms until ctx is done. A stranger's invitation stays, because its sender may become a user.
func (l *joinList) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var attempts sync.WaitGroup
	defer attempts.Wait()
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
		for due := l.begin(); due != nil; due = l.begin() {
			attempts.Go(func() {
				defer l.wakeUp()
				defer l.end(due)
				l.try(ctx, *due)
			})
		}
	}
}

// begin returns a copy of the next join to try, nil if none is due or too many are being tried. Rooms that nobody can join don't keep
// others waiting: users of the relay come first, then what failed least, then who invites least, then the newest.
func (l *joinList) begin() *join {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attempts == maxAttempts {
		return nil
	}
	now, counts := time.Now(), l.counts()
	var next *join
	for _, p := range l.byRoom {
		if p.trying || now.Before(p.next) || l.trying[p.by()] == shareInviter || !p.user && l.others == shareOthers {
			continue
		}
		if next == nil || before(p, next, counts) {
			next = p
		}
	}
	if next == nil {
		return nil
	}
	next.trying = true
	l.attempts++
	l.trying[next.by()]++
	if !next.user {
		l.others++
	}
	due := *next
	return &due
}

// before reports whether a is tried before b.
func before(a, b *join, counts map[string]int) bool {
	if a.user != b.user {
		return a.user
	}
	return cmp.Or(cmp.Compare(a.failures, b.failures), cmp.Compare(counts[a.by()], counts[b.by()]), cmp.Compare(b.order, a.order)) < 0
}

// end ends an attempt.
func (l *joinList) end(tried *join) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts--
	if l.trying[tried.by()]--; l.trying[tried.by()] == 0 {
		delete(l.trying, tried.by())
	}
	if !tried.user {
		l.others--
	}
	if p := l.byRoom[tried.RoomID]; p != nil {
		p.trying = false
	}
}

func (l *joinList) try(ctx context.Context, due join) {
	if due.Replaces == "" {
		allowed, err := l.mayInvite(ctx, due.Inviter)
		if err != nil {
			l.o.Log.Error("cannot read who may invite the bot", zap.String("room", due.RoomID), zap.Error(err))
			l.postpone(due, time.Minute)
			return
		}
		if !allowed {
			if due.failures == 0 {
				l.o.Log.Info("an invitation from an unknown user stays pending", zap.String("room", due.RoomID), zap.String("inviter", due.Inviter))
			}
			l.postpone(due, time.Minute)
			return
		}
	}
	within, cancel := context.WithTimeout(ctx, firstAttempt<<min(due.failures, 10))
	defer cancel()
	wait, err := l.o.Join(within, due.PendingJoin)
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
	l.postpone(due, wait+rand.N(wait/4+1))
}

// postpone schedules the next attempt, unless the join changed since.
func (l *joinList) postpone(tried join, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.byRoom[tried.RoomID]; p != nil && p.order == tried.order {
		p.next = time.Now().Add(wait)
		p.failures++
	}
}

// mayInvite reports whether the bot accepts an invitation: from a user of the relay, or from anybody on a configured server.
func (l *joinList) mayInvite(ctx context.Context, inviter string) (bool, error) {
	if _, server, _ := strings.Cut(inviter, ":"); slices.Contains(l.o.Servers, server) {
		return true, nil
	}
	users, err := l.o.Store.MatrixUsers(ctx)
	return slices.Contains(users, inviter), err
}

// dropSuccessor forgets that a room replaces another. An invitation to it stays.
func (l *joinList) dropSuccessor(ctx context.Context, roomID string) {
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
