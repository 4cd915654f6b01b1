package relay

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
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
	if info.Encrypted {
		s.RoomEncrypted(id)
	}
	return info, nil
}

// away is the answer when the homeserver did not say what was asked.
func away(err error) error {
	return &Error{Kind: KindUnavailable, Message: classOf(err).Sentence(), RetryAfter: refusal.RetryAfter, Err: err}
}

// listen does what the homeserver's events ask for, until ctx is done.
func (s *Service) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.o.Events:
			s.handle(e)
		}
	}
}

func (s *Service) handle(e matrix.Event) {
	switch e := e.(type) {
	case matrix.Online:
		s.Resume()
	case matrix.Offline:
		s.d.gate.suspect(e.Reason)
	case matrix.Joined:
		s.RoomJoined(e.Room)
	case matrix.PowerLevels: // the bot may be allowed to write again
		s.RoomJoined(e.Room)
	case matrix.Left:
		s.RoomLeft(e.Room, e.Reason)
	case matrix.Encrypted:
		s.RoomEncrypted(e.Room)
	case matrix.Replaced:
		s.RoomReplaced(e.Old, e.New)
	case matrix.Named:
		s.RoomNamed(e.Room, e.Name)
	case matrix.Echo:
		s.Echo(e.Room, e.Txn, e.ID)
	}
}

// RoomJoined lets go on what was blocked because the bot was not in the room or could not write there.
func (s *Service) RoomJoined(roomID string) {
	for _, q := range s.d.inRoom(roomID) {
		if r := q.Room(); r.Parked != "" && !r.Encrypted {
			s.d.unpark(q)
			q.retry()
		}
	}
}

// RoomLeft blocks a room that the bot is in no more: its messages wait.
func (s *Service) RoomLeft(roomID, reason string) {
	if reason == "" {
		reason = "The bot is not in the room any more: invite it again."
	}
	for _, q := range s.d.inRoom(roomID) {
		s.d.parkRoom(q, ClassPark, reason)
		q.delay(parkedFor)
	}
}

// RoomEncrypted blocks a room that is encrypted. It is remembered for ever.
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

// RoomReplaced moves applications and waiting messages to the room that took the place of another.
func (s *Service) RoomReplaced(oldID, newID string) { s.d.replaced(oldID, newID) }

func (d *dispatcher) replaced(oldID, newID string) {
	for _, q := range d.inRoom(oldID) {
		q.setRoom(func(r *store.Room) {
			r.Replaced, r.ReplacedAt = oldID, time.Now().UnixMilli()
			if r.Address == oldID {
				r.Address = newID
			}
			r.RoomID, r.Encrypted = newID, false
			r.Parked, r.ParkedAs, r.ParkedAt = "", "", 0
		})
		d.saveRoom(q)
		d.log.Info("a room was upgraded", zap.String("old", oldID), zap.String("new", newID))
		q.retry()
	}
}

// RoomNamed keeps a room's name.
func (s *Service) RoomNamed(roomID, name string) {
	for _, q := range s.d.inRoom(roomID) {
		if q.Room().Name != name {
			q.setRoom(func(r *store.Room) { r.Name = name })
			s.d.saveRoom(q)
		}
	}
}

// Echo ends a send whose answer was lost: sync has shown the event with its transaction id.
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

// Resume ends a pause: the session is good again.
func (s *Service) Resume() {
	s.d.gate.trust()
	s.d.gate.look()
}
