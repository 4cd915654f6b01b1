package relay

import (
	"context"
	"crypto/rand"
	"strings"

	"slipway/relay/internal/store"
)

// The address of a room that the bot is still to make is roomToMake and a random
// key, and behind it roomBegun once the homeserver may have been asked for it.
const (
	roomToMake = "new:"
	roomBegun  = "?"
)

// maxLooks is in how many rooms one is looked for that may have been made.
const maxLooks = 1000

func newRoomAddress() string { return roomToMake + rand.Text() }

// toMake tells whether the room is still to be made by the bot.
func toMake(r store.Room) bool { return r.RoomID == "" && strings.HasPrefix(r.Address, roomToMake) }

// makeRoom makes the room of an application, once: that it begins is stored before,
// and the room carries a key. If the answer was lost, to a broken connection or the
// relay's own end, the next attempt looks for the room of the first. Only one that
// the homeserver is still making then is missed, and another is made.
func (d *dispatcher) makeRoom(ctx context.Context, q *queue) (string, error) {
	r := q.Room()
	app, ok := d.dir.inRoom(r.ID)
	if !ok {
		return "", &SendError{Class: ClassPark, Reason: "No application needs the room any more."}
	}
	key, begun := strings.CutSuffix(strings.TrimPrefix(r.Address, roomToMake), roomBegun)
	n := NewRoom{Key: key, Name: app.Name, Topic: "Messages of the application " + app.Name}
	if app.OwnerMatrixID != "" {
		n.Invite = []string{app.OwnerMatrixID}
	}
	if begun {
		switch id, err := d.findMade(ctx, key); {
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
		if err := d.rooms.Invite(ctx, roomID, user); err != nil {
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
// application has; "" if it is none of them.
func (d *dispatcher) findMade(ctx context.Context, key string) (string, error) {
	joined, err := d.rooms.Joined(ctx)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	for _, q := range d.all() {
		used[q.Room().RoomID] = true
	}
	looks := 0
	for _, id := range joined {
		if used[id] {
			continue
		}
		if looks++; looks > maxLooks {
			break
		}
		found, err := d.rooms.KeyOf(ctx, id)
		switch {
		case err != nil && !saysNo(err):
			return "", err
		case found == key:
			return id, nil
		}
	}
	return "", nil
}

// saysNo tells whether the homeserver says no for good: one that the bot has left
// meanwhile, or that is broken, is not the room that is looked for.
func saysNo(err error) bool {
	class := classOf(err).Class
	return class == ClassPark || class == ClassDead
}
