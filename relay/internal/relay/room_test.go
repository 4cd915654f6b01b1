package relay

import (
	"fmt"
	"sync"
	"testing"

	"slipway/relay/internal/store"
)

// What is stored of a room is what was remembered last, whoever stores it: that it
// is encrypted must not be forgotten.
func TestRoomIsStoredAsItStands(t *testing.T) {
	r := newRig(t)
	app := r.app("a", "!a:hs")
	q := r.d.queue(r.App(app.Application.ID).Row().RoomID)
	for round := range 300 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				q.setRoom(func(room *store.Room) { room.Name = fmt.Sprint(round, " ", i) })
				r.d.saveRoom(q)
			})
		}
		all.Wait()
		var stored store.Room
		if err := r.store.Read(ctx).Take(&stored, q.id).Error; err != nil {
			t.Fatal(err)
		}
		if stored != q.Room() {
			t.Fatalf("round %d: stored is %+v, it is %+v", round, stored, q.Room())
		}
	}
}
