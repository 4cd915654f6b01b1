package relay

import (
	"context"
	"strings"
)

// makeRoom makes the room of an application, once: its key is stored before the first attempt, and the homeserver
// knows a room by it.
func (d *dispatcher) makeRoom(ctx context.Context, q *queue) (string, error) {
	r := q.Room()
	app, ok := d.accounts.InRoom(r.ID)
	if !ok {
		return "", &SendError{Class: ClassPark, Reason: "No application needs the room any more."}
	}
	const begun = "?" // in addresses that the first edition stored
	n := NewRoom{Key: strings.TrimSuffix(r.Key(), begun), Name: app.Name, Topic: "Messages of the application " + app.Name}
	if app.OwnerMatrixID != "" {
		n.Invite = []string{app.OwnerMatrixID}
	}
	return d.rooms.Create(ctx, n)
}
