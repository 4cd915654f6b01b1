package lease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Once a lease may have expired nothing is sent, whatever else is known of it.
func TestLease_MayHaveExpired_IsNotValid(t *testing.T) {
	l := NewLease(nil, zap.NewNop())
	if l.Valid() {
		t.Error("valid without a lease")
	}
	l.hold(time.Now())
	if !l.Valid() {
		t.Error("not valid when it was taken just now")
	}
	for name, asked := range map[string]time.Time{
		"by both clocks":              time.Now().Add(leaseSpare - leaseFor),
		"by the one that runs on":     time.Now().Add(leaseSpare - leaseFor).Round(0),
		"long after it was asked for": time.Now().Add(-time.Hour),
	} {
		l.hold(asked)
		if l.Valid() {
			t.Errorf("valid though it may have expired, %s", name)
		}
	}
}

// A relay that has its database to itself always may deliver, and has nobody to tell.
func TestMember_Alone(t *testing.T) {
	var m Member
	m.Announce(Note{Lease: true})
	if m.Shared() || m.Held() {
		t.Errorf("shared %v, held %v", m.Shared(), m.Held())
	}
	m.Leave()
}

// What is announced before it is sent goes out as one note, with the strongest change of each room.
func TestAnnounce_SeveralNotes_AreMerged(t *testing.T) {
	m := Member{stop: func() {}, wake: make(chan struct{}, 1)}
	m.Announce(Note{Rooms: map[int64]int{1: 2, 2: 0}, Final: []int64{7}})
	m.Announce(Note{Rooms: map[int64]int{1: 1}, Final: []int64{8}, Lease: true})
	want := Note{Rooms: map[int64]int{1: 2, 2: 0}, Final: []int64{7, 8}, Lease: true}
	if !reflect.DeepEqual(m.next, want) || len(m.wake) != 1 {
		t.Errorf("%+v, want %+v", m.next, want)
	}
}

// A relay that was frozen until its lease expired names nobody as the one that delivers, and not itself, until it has looked.
func TestLease_ExpiredHere_IsNobodys(t *testing.T) {
	l := NewLease(nil, zap.NewNop())
	l.seen.Store(&Seen{Term{Held: true, Holder: "this relay"}, true})
	l.hold(time.Now())
	if seen := l.Deliverer(); seen == nil || seen.Holder != "this relay" || !seen.Mine {
		t.Errorf("while it delivers: %+v", seen)
	}
	l.hold(time.Now().Add(-time.Hour))
	if seen := l.Deliverer(); seen != nil {
		t.Errorf("after its lease has expired: %+v", seen)
	}
	l.seen.Store(&Seen{Term{Held: true, Holder: "another"}, false})
	if seen := l.Deliverer(); seen == nil || seen.Holder != "another" || seen.Mine {
		t.Errorf("when another one delivers: %+v", seen)
	}
}

// silent is a database that doesn't answer.
type silent struct{}

func (silent) Connect(context.Context) (driver.Conn, error) { return nil, io.ErrUnexpectedEOF }

func (silent) Driver() driver.Driver { return nil }

// A lease that can't be renewed is reported at the first failure, once, and not when it has ended.
func TestKeep_DatabaseDoesNotAnswer_IsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(silent{})
		defer func() { _ = db.Close() }()
		core, logs := observer.New(zap.InfoLevel)
		m := &Member{o: Options{Leases: db, Explain: func(err error) error { return err }}}
		l, began := NewLease(m, zap.New(core)), time.Now()
		l.hold(began)
		l.Keep(t.Context(), func() string { return "" })
		all := logs.All()
		if len(all) != 1 || all[0].Level != zap.WarnLevel || all[0].Time.Sub(began) > renewEvery {
			t.Errorf("logged: %+v", all)
		}
		if l.Valid() {
			t.Error("still valid")
		}
	})
}
