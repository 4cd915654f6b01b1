package relay

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

const (
	lookAtRooms = 5 * time.Second
	maxJoined   = 200
)

// Rooms lists the target rooms of the applications that v may see, with what is wrong with them.
func (s *Service) Rooms(_ context.Context, v Viewer) ([]Room, error) {
	apps := map[int64][]string{}
	for _, a := range s.Visible(v) {
		row := a.Row()
		apps[row.RoomID] = append(apps[row.RoomID], row.Name)
	}
	rooms := []Room{}
	for id, names := range apps {
		if q := s.d.queue(id); q != nil {
			slices.Sort(names)
			rooms = append(rooms, q.show(names))
		}
	}
	slices.SortFunc(rooms, func(a, b Room) int { return strings.Compare(a.Address+a.Apps[0], b.Address+b.Apps[0]) })
	return rooms, nil
}

// show makes what is shown of a room.
func (q *queue) show(apps []string) Room {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := Room{
		Address: q.room.Address, RoomID: q.room.RoomID, Name: q.room.Name, Encrypted: q.room.Encrypted,
		Parked: q.room.Parked, ParkedAt: store.Time(q.room.ParkedAt), Waiting: q.waiting, Apps: apps,
	}
	if q.room.ToMake() {
		r.Address = ""
	}
	if q.waiting > 0 {
		r.Oldest = store.Time(q.oldest)
	}
	return r
}

// RetryRoom lets a parked room try again. It is named by its address or id.
func (s *Service) RetryRoom(_ context.Context, v Viewer, address string) error {
	for _, a := range s.Visible(v) {
		q := s.d.queue(a.Row().RoomID)
		if q == nil {
			continue
		}
		if r := q.Room(); address != "" && (r.Address == address || r.RoomID == address) {
			q.retry()
			return nil
		}
	}
	return refusal.NotFound("room")
}

// JoinedRooms lists the rooms that the bot is in, for choosing one. It asks the homeserver.
func (s *Service) JoinedRooms(ctx context.Context) ([]RoomInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	ids, err := s.o.Rooms.Joined(ctx)
	if err != nil {
		return nil, away(err)
	}
	slices.Sort(ids)
	rooms := make([]RoomInfo, 0, len(ids))
	for _, id := range ids[:min(len(ids), maxJoined)] {
		info, err := s.o.Rooms.Info(ctx, id)
		if err != nil {
			info = RoomInfo{RoomID: id, Joined: true}
		}
		rooms = append(rooms, info)
	}
	return rooms, nil
}

// CheckRoom tells how the bot stands in a room, named by id or alias. It asks the homeserver.
func (s *Service) CheckRoom(ctx context.Context, address string) (RoomInfo, error) {
	if err := account.CheckAddress(address); err != nil {
		return RoomInfo{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookAtRooms)
	defer cancel()
	id, err := s.o.Rooms.Resolve(ctx, address)
	if err != nil {
		return RoomInfo{}, away(err)
	}
	info, err := s.o.Rooms.Info(ctx, id)
	if err != nil {
		return RoomInfo{}, away(err)
	}
	return info, nil
}

// away is the answer when the homeserver did not say what was asked.
func away(err error) error {
	return &Error{Kind: KindUnavailable, Message: classOf(err).sentence(), RetryAfter: refusal.RetryAfter, Err: err}
}

// RoomJoined is called by the Matrix side when the bot has come into a room or is found in it: what was held up because
// it was not goes on.
func (s *Service) RoomJoined(roomID string) {
	for _, q := range s.d.inRoom(roomID) {
		if r := q.Room(); r.Parked != "" && !r.Encrypted {
			s.d.unpark(q)
			q.retry()
		}
	}
}

// RoomLeft is called by the Matrix side when the bot was removed from a room: its messages wait.
func (s *Service) RoomLeft(roomID, reason string) {
	if reason == "" {
		reason = "The bot is not in the room any more: invite it again."
	}
	for _, q := range s.d.inRoom(roomID) {
		s.d.parkRoom(q, ClassPark, reason)
		q.delay(parkedFor)
	}
}

// RoomEncrypted is called by the Matrix side when a room is seen encrypted. It is remembered for ever.
func (s *Service) RoomEncrypted(roomID string) {
	for _, q := range s.d.inRoom(roomID) {
		if q.Room().Encrypted {
			continue
		}
		s.d.encrypted(q)
		s.d.parkRoom(q, ClassEncrypted, encryptedReason)
		q.nudge()
	}
}

// RoomReplaced is called by the Matrix side when a room was upgraded and the bot is in the new one: applications
// and waiting messages move there.
func (s *Service) RoomReplaced(oldID, newID string) {
	for _, q := range s.d.inRoom(oldID) {
		q.setRoom(func(r *store.Room) {
			r.Replaced, r.ReplacedAt = oldID, time.Now().UnixMilli()
			if r.Address == oldID {
				r.Address = newID
			}
			r.RoomID, r.Encrypted = newID, false
			r.Parked, r.ParkedAs, r.ParkedAt = "", "", 0
		})
		s.d.saveRoom(q)
		s.log.Info("a room was upgraded", zap.String("old", oldID), zap.String("new", newID))
		q.retry()
	}
}

// RoomNamed is called by the Matrix side when it learns a room's name.
func (s *Service) RoomNamed(roomID, name string) {
	for _, q := range s.d.inRoom(roomID) {
		if q.Room().Name != name {
			q.setRoom(func(r *store.Room) { r.Name = name })
			s.d.saveRoom(q)
		}
	}
}

// Echo is called by the Matrix side when sync shows an event of ours with its transaction id. It settles a send
// whose answer was lost.
func (s *Service) Echo(roomID, txnID, eventID string) {
	for _, q := range s.d.inRoom(roomID) {
		s.d.echo(q, txnID, eventID)
	}
}

// echo ends an entry that waits for another attempt though its event is in the room.
func (d *dispatcher) echo(q *queue, txn, eventID string) {
	q.edit.Lock()
	defer q.edit.Unlock()
	q.mu.Lock()
	var e *store.Entry
	if q.inFlight == 0 && len(q.head) > 0 && q.head[0].Txn == txn && q.head[0].FirstAttemptAt != 0 {
		e = q.head[0]
	}
	q.mu.Unlock()
	if e == nil || e.Op != store.OpSend || e.Step == stepFile {
		return
	}
	d.succeeded(q, e, eventID)
	q.retry()
}

// Resume is called by the Matrix side when the session is good again: a pause ends.
func (s *Service) Resume() { s.d.gate.look() }
