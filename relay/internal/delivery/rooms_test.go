package delivery

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/store"
)

// The stored row of a room holds the newest knowledge, in whichever order goroutines store it:
// its encryption must not be forgotten.
func TestRoomIsStoredAsItStands(t *testing.T) {
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var room store.Room
	err = s.Update(t.Context(), func(tx *store.Tx) (err error) {
		room, err = tx.RoomAt("!a:hs")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(t.Context(), Options{Store: s, Log: zap.NewNop(), Metrics: NewMetrics(prometheus.NewRegistry())})
	if err != nil {
		t.Fatal(err)
	}
	q, err := d.queue(room.ID)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 300 {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				q.setRoom(func(room *store.Room) { room.Name = fmt.Sprint(round, " ", i) })
				d.saveRoom(q)
			})
		}
		all.Wait()
		stored, err := s.Room(t.Context(), room.ID)
		if err != nil {
			t.Fatal(err)
		}
		if stored != q.Room() {
			t.Fatalf("round %d: stored is %+v, it is %+v", round, stored, q.Room())
		}
	}
}
