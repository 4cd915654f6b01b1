package account

import (
	"context"
	"sync"

	"slipway/relay/internal/store"
)

// sharedRooms are the rooms that several applications send to, as of some state of both.
type sharedRooms struct {
	mu           sync.Mutex
	known        bool
	edits, saved int64 // of the applications and of the rooms, when they were read
	rows         map[int64]bool
}

// Shown returns what an application's messages show of it: its name if it belongs before their titles, and its owner's
// Matrix id.
func (s *Accounts) Shown(ctx context.Context, row *store.Application) (sender, owner string) {
	u, _ := s.cache.user(row.OwnerID)
	switch ShowSender(row.ShowSender) {
	case ShowAlways:
		return row.Name, u.MatrixID
	case ShowAuto:
		if s.isShared(ctx, row.RoomID) {
			return row.Name, u.MatrixID
		}
	}
	return "", u.MatrixID
}

// isShared reports whether several applications send to a room, be it that one names it by its id and another by an alias.
func (s *Accounts) isShared(ctx context.Context, room int64) bool {
	r := &s.sharedRooms
	edits, saved := s.cache.edited(), s.store.RoomsSaved()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known || r.edits != edits || r.saved != saved {
		r.edits, r.saved = edits, saved
		r.rows, r.known = s.readSharedRooms(ctx)
	}
	return r.rows[room]
}

// readSharedRooms reads the rooms that several applications send to. When the database cannot be read, it answers false with those
// that they name alike.
func (s *Accounts) readSharedRooms(ctx context.Context) (shared map[int64]bool, complete bool) {
	rooms, err := s.store.Rooms(ctx)
	ids := make(map[int64]string, len(rooms))
	for _, r := range rooms {
		ids[r.ID] = r.RoomID
	}
	rows, named := map[int64]int{}, map[string]int{}
	apps := s.cache.all(func(*store.Application) bool { return true })
	for _, a := range apps {
		room := a.Row().RoomID
		rows[room]++
		named[ids[room]]++
	}
	shared = map[int64]bool{}
	for room, n := range rows {
		shared[room] = n > 1 || ids[room] != "" && named[ids[room]] > 1
	}
	return shared, err == nil
}
