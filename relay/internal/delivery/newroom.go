package delivery

import (
	"context"

	"go.uber.org/zap"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/store"
)

// makeRoom creates an application's room. It is idempotent: the key is stored before the first attempt and identifies the
// room at the homeserver.
func (d *Delivery) makeRoom(ctx context.Context, r store.Room) (string, error) {
	user, err := d.store.RoomUser(ctx, r.ID)
	if store.IsMissing(err) {
		return "", &matrix.SendError{Class: matrix.ClassBlock, Reason: "No application needs the room any more."}
	}
	if err != nil {
		return "", err
	}
	n := matrix.NewRoom{Key: r.Key(), Name: user.Name, Topic: "Messages of the application " + user.Name}
	if user.OwnerMatrixID != "" {
		n.Invite = []string{user.OwnerMatrixID}
	}
	return d.o.Rooms.Create(ctx, n)
}

// Make creates or resolves a room if the homeserver answers within five seconds; otherwise MakeRooms does later.
func (d *Delivery) Make(ctx context.Context, room int64) {
	if d.pause.Closed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeRoomIn)
	defer cancel()
	q, err := d.queue(room)
	if err == nil {
		err = d.prepare(ctx, q)
	}
	if err != nil {
		fields := []zap.Field{zap.Int64("room", room), zap.Error(err)}
		if q != nil {
			fields = append(d.roomFields(q), zap.Error(err))
		}
		d.log.Warn("the application's room is not there yet", fields...)
	}
}

// MakeRooms makes the rooms that could not be made when their applications were created, unless sending is paused.
func (d *Delivery) MakeRooms() {
	if d.pause.Closed() {
		return
	}
	rooms, err := d.store.RoomsToMake(d.ctx)
	if err != nil {
		d.log.Error("cannot read the rooms to create", zap.Error(err))
	}
	for _, r := range rooms {
		if d.isStopping() {
			return
		}
		if err := d.prepare(d.ctx, d.add(r)); err != nil {
			d.log.Warn("cannot make an application's room", zap.Int64("room", r.ID), zap.Error(err))
		}
	}
}

// prepare makes sure that the room's id is known: it makes the room or looks up its alias.
func (d *Delivery) prepare(ctx context.Context, q *queue) error {
	if q.Room().RoomID != "" {
		return nil
	}
	q.making.Lock()
	defer q.making.Unlock()
	r := q.Room()
	if r.RoomID != "" {
		return nil
	}
	var err error
	if r.ToMake() {
		r.RoomID, err = d.makeRoom(ctx, r)
		r.Address = r.RoomID
	} else {
		r.RoomID, err = d.o.Rooms.Resolve(ctx, r.Address)
	}
	if err != nil {
		d.noRoom(q, classOf(err))
		return err
	}
	q.setRoom(func(room *store.Room) { room.Address, room.RoomID = r.Address, r.RoomID })
	defer d.lookSoon()
	if q.Room().Blocked != "" {
		d.unblock(q)
		q.retry()
		return nil
	}
	d.saveRoom(q)
	return nil
}

// noRoom notes why a room is not to be had, so that it can be read before a message waits for it. What is about all rooms
// is told elsewhere.
func (d *Delivery) noRoom(q *queue, f *matrix.SendError) {
	if f.Alone || f.Class == matrix.ClassBlock || f.Class == matrix.ClassDead {
		d.block(q, f.Class, f.Sentence())
	}
}
