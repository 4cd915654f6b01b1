package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/servertest"
)

var ctx = context.Background()

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fresh opens an empty database, of the kind that is tested now.
func fresh(t *testing.T) *Store {
	t.Helper()
	if postgresServer == nil {
		return open(t, filepath.Join(t.TempDir(), "relay.db"))
	}
	s, err := OpenPostgres(ctx, Postgres{DSN: postgresServer.Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// postgresServer is there while the tests run on PostgreSQL.
var postgresServer *servertest.Postgres

func TestMain(m *testing.M) {
	os.Exit(servertest.OnBoth(m, func(s *servertest.Postgres) { postgresServer = s }))
}

// entry is a message to be stored.
func entry(room int64, body string) *Incoming {
	now := time.Now().UnixMilli()
	return &Incoming{Entry: post.Entry{Origin: post.Origin{ApplicationID: 1, Room: room, AcceptedAt: now}, Txn: post.NewTxn(), State: post.StateQueued, QueuedAt: now, Content: post.Content{Body: body}}}
}

// ready is fresh with a room and its application.
func ready(t *testing.T) *Store {
	t.Helper()
	s := fresh(t)
	withRoom(t, s)
	return s
}

// readyWithMessage is ready with a message that waits.
func readyWithMessage(t *testing.T) (*Store, *Incoming) {
	t.Helper()
	s, a := ready(t), entry(1, "x")
	insert(t, s, a)
	return s, a
}

func insert(t *testing.T, s *Store, all ...*Incoming) {
	t.Helper()
	if err := s.Insert(ctx, all...); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, s *Store, change func(*Tx) error) {
	t.Helper()
	if err := s.Update(ctx, change); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Settle(ctx); err != nil {
		t.Fatal(err)
	}
}

// fillDisk fills the disk of a database, or frees it.
func fillDisk(t *testing.T, s *Store, full bool) {
	t.Helper()
	update(t, s, func(tx *Tx) error {
		switch {
		case postgresServer == nil && full:
			return tx.exec(`PRAGMA max_page_count = 1`)
		case postgresServer == nil:
			return tx.exec(`PRAGMA max_page_count = 1000000000`)
		case full:
			return tx.exec(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE disk_full; END $f$;
				CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON outbox EXECUTE FUNCTION full_disk()`)
		}
		return tx.exec(`DROP FUNCTION full_disk() CASCADE`)
	})
}

// found stores what an attempt has found.
func found(t *testing.T, s *Store, e post.Entry, f post.Fact, at int64) {
	t.Helper()
	s.Record(NewOutcome(e, f, at))
	settle(t, s)
}

// pending returns what a room is still to get.
func pending(t *testing.T, s *Store, room int64) []*post.Entry {
	t.Helper()
	all, _, err := s.Pending(ctx, room, 10_000, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// withRoom makes the room and the application that entries name.
func withRoom(t *testing.T, s *Store) {
	t.Helper()
	update(t, s, func(tx *Tx) error {
		u := User{Name: "u", CreatedAt: 1}
		if err := tx.SaveUser(&u); err != nil {
			return err
		}
		r, err := tx.RoomAt("!a")
		if err != nil {
			return err
		}
		return tx.CreateApplication(&Application{OwnerID: u.ID, Settings: Settings{Name: "a"}, RoomID: r.ID, CreatedAt: 1})
	})
}

// relays opens two stores on one database, as two relays do.
func relays(t *testing.T) (a, b *Store) {
	t.Helper()
	dsn := postgresServer.Database(t)
	var both [2]*Store
	for i := range both {
		s, err := OpenPostgres(ctx, Postgres{DSN: dsn, Shared: true, Name: fmt.Sprint("relay", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		both[i] = s
	}
	withRoom(t, both[0])
	return both[0], both[1]
}

// receives wants a signal to come, however busy the machine is.
func receives[T any](t *testing.T, what string, from <-chan T) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(time.Minute):
		t.Errorf("never: %s", what)
	}
}

// blocked waits until somebody waits for a row that another transaction holds.
func blocked(t *testing.T, s *Store) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var n int
		if err := s.read.QueryRowContext(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nobody waits")
}

// elsewhere begins a transaction of another relay, which may take its time.
func elsewhere(t *testing.T, s *Store, text string, args ...any) *sql.Tx {
	t.Helper()
	tx, err := s.pools[0].BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.ExecContext(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, text, args...); err != nil {
		t.Fatal(err)
	}
	return tx
}

var onlyPostgres = []struct {
	name string
	run  func(*testing.T)
}{
	{"Insert_OneKeyAtTwoRelays_IsOneMessage", testInsert_OneKeyAtTwoRelays_IsOneMessage},
	{"Insert_TwoRelaysInOneRoom_NoneComesBeforeAnEarlierOne", testInsert_TwoRelaysInOneRoom_NoneComesBeforeAnEarlierOne},
	{"Reads_KeepNothing", testReads_KeepNothing},
	{"Changes_LockedByEachOther_AreMade", testChanges_LockedByEachOther_AreMade},
	{"Administrators_TwoRelaysRemoveEachOther_OneStays", testAdministrators_TwoRelaysRemoveEachOther_OneStays},
	{"Copy_Refused", testCopy_Refused},
	{"Copy_ThereAndBack_Interrupted_NothingIsLost", testCopy_ThereAndBack_Interrupted_NothingIsLost},
	{"Count_TwoRelays_ShareTheirBuckets", testCount_TwoRelays_ShareTheirBuckets},
	{"FrozenServer_ReadsEndInTime", testFrozenServer_ReadsEndInTime},
	{"Horizon_AnotherRelayWrites_WaitsForIt", testHorizon_AnotherRelayWrites_WaitsForIt},
	{"Lease_ConnectionsAreBusy_IsRenewed", testLease_ConnectionsAreBusy_IsRenewed},
	{"Lease_RenewalIsRefused_TermEnds", testLease_RenewalIsRefused_TermEnds},
	{"Lease_TakenByAnother_NothingOfTheFirstIsStored", testLease_TakenByAnother_NothingOfTheFirstIsStored},
	{"LostConnections_AreMadeAnew", testLostConnections_AreMadeAnew},
	{"Notifications_ReachTheOtherRelay", testNotifications_ReachTheOtherRelay},
	{"OpenPostgres_Refused_SaysWhy", testOpenPostgres_Refused_SaysWhy},
	{"OpenPostgres_SeveralHosts", testOpenPostgres_SeveralHosts},
	{"OpenPostgres_TLS", testOpenPostgres_TLS},
	{"OutcomeOfAFile_WithdrawnElsewhereMeanwhile_IsRemoved", testOutcomeOfAFile_WithdrawnElsewhereMeanwhile_IsRemoved},
	{"ReadOnlyServer_IsRefusedWithASentence", testReadOnlyServer_IsRefusedWithASentence},
	{"Withdraw_SentElsewhereMeanwhile_RemovesTheEvent", testWithdraw_SentElsewhereMeanwhile_RemovesTheEvent},
	{"Writer_ScansATable_CompilesNothing", testWriter_ScansATable_CompilesNothing},
}

// TestOneDatabase runs the tests of what only PostgreSQL does.
func TestOneDatabase(t *testing.T) {
	if postgresServer == nil {
		t.Skip("this is the run on SQLite; the package's tests run again on PostgreSQL")
	}
	for _, test := range onlyPostgres {
		t.Run(test.name, test.run)
	}
}
