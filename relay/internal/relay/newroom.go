package relay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// A room's address ends in roomBegun once the homeserver may have been asked for it.
const roomBegun = "?"

const (
	maxLooks = 1000             // in how many rooms one is looked for that may have been made
	maxDark  = 5                // …of which so many, into which the homeserver cannot look, are enough
	passOver = 15 * time.Minute // after that these do not count
)

// makeRoom makes the room of an application, once: that it begins is stored before,
// and the room carries a key. If the answer was lost, to a broken connection or the
// relay's own end, the next attempt looks for the room of the first. Only one that
// the homeserver is still making then, or cannot look into for [passOver], is missed,
// and another is made.
func (d *dispatcher) makeRoom(ctx context.Context, q *queue) (string, error) {
	r := q.Room()
	app, ok := d.accounts.InRoom(r.ID)
	if !ok {
		return "", &SendError{Class: ClassPark, Reason: "No application needs the room any more."}
	}
	key, begun := strings.CutSuffix(r.Key(), roomBegun)
	n := NewRoom{Key: key, Name: app.Name, Topic: "Messages of the application " + app.Name}
	if app.OwnerMatrixID != "" {
		n.Invite = []string{app.OwnerMatrixID}
	}
	if begun {
		switch id, err := d.findMade(ctx, q, key); {
		case err != nil:
			return "", err
		case id != "":
			return id, d.invite(ctx, id, n.Invite)
		}
	} else if err := d.noteBegun(q); err != nil {
		return "", err
	}
	return d.rooms.Create(ctx, n)
}

// invite does for a room that was found what may have failed when it was made: a
// homeserver invites when the room is there already.
func (d *dispatcher) invite(ctx context.Context, roomID string, users []string) error {
	for _, user := range users {
		err := d.rooms.Invite(ctx, roomID, user)
		if failed := classOf(err); err != nil && failed.Class == ClassRetry {
			named := *failed
			named.Reason = "the application's room is there, but its owner " + user + " cannot be invited yet: " + failed.Sentence()
			return &named
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteBegun stores that the room may be there from now on.
func (d *dispatcher) noteBegun(q *queue) error {
	q.setRoom(func(r *store.Room) { r.Address += roomBegun })
	err := d.storeRoom(q)
	if err != nil {
		q.setRoom(func(r *store.Room) { r.Address = strings.TrimSuffix(r.Address, roomBegun) })
	}
	return err
}

// findMade looks for the room with the key among those that the bot is in and no
// application has; "" if it is none of them. A room that cannot be looked into may be
// the one: that is waited for, a while.
func (d *dispatcher) findMade(ctx context.Context, q *queue, key string) (string, error) {
	rooms, err := d.unused(ctx)
	if err != nil {
		return "", err
	}
	var dark []string
	var why *SendError
	for _, id := range rooms[:min(len(rooms), maxLooks)] {
		found, err := d.rooms.KeyOf(ctx, id)
		switch {
		case err == nil && found == key:
			return id, nil
		case err == nil || saysNo(err):
			continue
		case ctx.Err() != nil || classOf(err).Class != ClassRetry:
			return "", err // about nothing else there would be an answer
		}
		dark, why = append(dark, id), classOf(err)
		if len(dark) == maxDark {
			break
		}
	}
	return "", d.dark(q, dark, why)
}

// dark says what it means that rooms cannot be looked into: nothing, when that has
// been so for long enough.
func (d *dispatcher) dark(q *queue, rooms []string, why *SendError) error {
	if len(rooms) == 0 {
		q.setDark(time.Time{})
		return nil
	}
	since := q.setDark(time.Now())
	if time.Since(since) >= passOver {
		d.log.Warn("an application gets another room: whether one was made cannot be told", zap.Int64("room", q.id), zap.Strings("cannot_look_into", rooms), zap.Error(why))
		return nil
	}
	unclear := *why
	unclear.Alone = true // the list of the rooms was answered
	unclear.Reason = fmt.Sprintf("it cannot be told whether the application's room was made, because the homeserver fails for the room %s (%s); from %s on another room is made",
		strings.Join(rooms, ", "), why.Sentence(), since.Add(passOver).UTC().Format("15:04 MST"))
	return &unclear
}

// setDark notes since when rooms have been dark, if they were not before or nobody could
// look for long, and returns since when they have been; the zero time says that they are not.
func (q *queue) setDark(now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dark.since.IsZero() || now.IsZero() || now.Sub(q.dark.seen) > passOver {
		q.dark.since = now
	}
	q.dark.seen = now
	return q.dark.since
}

// unused lists the rooms that the bot is in and no application has.
func (d *dispatcher) unused(ctx context.Context) (rooms []string, err error) {
	joined, err := d.rooms.Joined(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, q := range d.all() {
		used[q.Room().RoomID] = true
	}
	for _, id := range joined {
		if !used[id] {
			rooms = append(rooms, id)
		}
	}
	return rooms, nil
}

// saysNo tells whether the homeserver says no for good: one that the bot has left
// meanwhile, or that is broken, is not the room that is looked for.
func saysNo(err error) bool {
	class := classOf(err).Class
	return class == ClassPark || class == ClassDead
}
