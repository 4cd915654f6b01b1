package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/message"
)

// onPostgres leaves a test out while the others run on SQLite. It runs when they do on PostgreSQL.
func onPostgres(t *testing.T) {
	t.Helper()
	if postgresServer == nil {
		t.Skip("the tests run on SQLite now")
	}
}

// relays opens two stores on one database, as two relays do.
func relays(t *testing.T) (a, b *Store) {
	t.Helper()
	onPostgres(t)
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

func acquire(t *testing.T, s *Store, ttl time.Duration) bool {
	t.Helper()
	taken, err := s.Acquire(ctx, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return taken
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

func TestLease_TakenByAnother_NothingOfTheFirstIsStored(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) || acquire(t, b, time.Hour) {
		t.Fatal("not exactly one has the lease")
	}
	first, second := entry(1, "1"), entry(1, "2")
	if err := b.Accept(ctx, first, second); err != nil {
		t.Fatal(err)
	}
	late := first.Entry
	late.State, late.Error = message.StateDead, "by the first relay"
	// The lease expires.
	if err := a.Lead(ctx, func(tx *Tx) error { return tx.exec(`UPDATE lease SET expires_at = '-infinity'`) }); err != nil {
		t.Fatal(err)
	}
	if !acquire(t, b, time.Hour) {
		t.Fatal("the second relay does not get the lease")
	}
	a.Report(&Outcome{Entry: late, At: 1})
	if err := a.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Message(ctx, first.Entry.ID); err != nil || m.State != message.StateQueued {
		t.Errorf("the first relay made the message %s, %v", m.State, err)
	}
	if err := a.SetSetting(ctx, "k", "v"); !errors.Is(err, ErrNotHeld) {
		t.Errorf("the first relay's setting: %v", err)
	}
	if err := a.SaveRoom(ctx, Room{ID: 1, Address: "!other"}); !errors.Is(err, ErrNotHeld) {
		t.Errorf("the first relay's room: %v", err)
	}
	if held, err := a.Renew(ctx, time.Hour, ""); held || err != nil {
		t.Errorf("the first relay renews the lease: %v, %v", held, err)
	}
	done := second.Entry
	done.State, done.EventID = message.StateSent, "$2"
	b.Report(&Outcome{Entry: done, At: 1})
	if err := b.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if m, err := a.Message(ctx, second.Entry.ID); err != nil || m.State != message.StateSent {
		t.Errorf("the second relay made the message %s, %v", m.State, err)
	}
	if l, err := a.ReadLease(ctx); err != nil || !l.Held || l.Holder != "relay1" {
		t.Errorf("lease %+v, %v", l, err)
	}
	if err := b.Release(ctx, func(*Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	receives(t, "the lease is free", a.LeaseFree())
	if !acquire(t, a, time.Hour) {
		t.Error("the lease that was given back cannot be taken")
	}
}

// Whoever reads a room while several relays add to it never sees a message before one that belongs before it.
func TestAccept_TwoRelaysInOneRoom_NoneComesBeforeAnEarlierOne(t *testing.T) {
	a, b := relays(t)
	const each = 60
	var wg sync.WaitGroup
	for _, s := range []*Store{a, b} {
		for range 3 {
			wg.Go(func() {
				for i := range each {
					if err := s.Accept(ctx, entry(1, fmt.Sprint(i))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	last, seen := int64(0), map[int64]int64{}
	for going := true; going; {
		select {
		case <-over:
			going = false // and one last look
		default:
		}
		found, _, err := a.Pending(ctx, 1, 10*each, 1<<30, seen)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			if e.ID < last {
				t.Fatalf("message %d is seen after %d", e.ID, last)
			}
			last, seen[e.ID] = e.ID, 0
		}
	}
	if len(seen) != 6*each {
		t.Errorf("%d of %d are seen", len(seen), 6*each)
	}
	for _, s := range []*Store{a, b} {
		if totals, err := s.Totals(ctx); err != nil || totals[1].Accepted != 6*each {
			t.Errorf("%d are counted, %v", totals[1].Accepted, err)
		}
	}
}

func TestAccept_OneKeyAtTwoRelays_IsOneMessage(t *testing.T) {
	a, b := relays(t)
	for i := range 10 {
		key := &Key{Key: fmt.Sprint("k", i), Hash: []byte("h")}
		var all [8]*Accept
		var wg sync.WaitGroup
		for j := range all {
			all[j] = entry(1, "x")
			all[j].Key = key
			wg.Go(func() {
				if err := []*Store{a, b}[j%2].Accept(ctx, all[j]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		fresh := 0
		for _, x := range all {
			if !x.Replay {
				fresh++
			}
			if x.Entry.ID != all[0].Entry.ID || x.Entry.ID == 0 {
				t.Errorf("key %d stands for %d and %d", i, x.Entry.ID, all[0].Entry.ID)
			}
		}
		if fresh != 1 {
			t.Errorf("key %d was new %d times", i, fresh)
		}
	}
}

func TestNotifications_ReachTheOtherRelay(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	x := entry(1, "x")
	if err := b.Accept(ctx, x); err != nil {
		t.Fatal(err)
	}
	for told := false; !told; {
		receives(t, "a change in the room", a.Changes())
		changes, _ := a.TakeChanges()
		for _, c := range changes {
			told = told || c.Room == 1 || c.Room == 0
		}
		told = told || t.Failed()
	}
	final, end := b.Watch(x.Entry.ID)
	defer end()
	done := x.Entry
	done.State, done.EventID = message.StateSent, "$1"
	a.Report(&Outcome{Entry: done, At: 1})
	receives(t, "the message is final", final)
}

func TestAccounts_ChangedByAnother_AreStale(t *testing.T) {
	a, b := relays(t)
	for _, s := range []*Store{a, b} {
		n, err := s.Revision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Know(n)
	}
	rename := func(s *Store, name string) error {
		return s.Update(ctx, func(tx *Tx) error { return tx.SaveUser(&User{ID: 1, Name: name}) })
	}
	if err := errors.Join(rename(a, "one"), rename(a, "two")); err != nil {
		t.Fatal(err)
	}
	if err := rename(b, "three"); !errors.Is(err, ErrStale) {
		t.Errorf("a change of what another relay has changed: %v", err)
	}
	receives(t, "the accounts were changed", b.AccountsChanged())
	n, err := b.Revision(ctx)
	if err != nil || n == b.Known() || n != a.Known() {
		t.Errorf("revision %d, known %d and %d, %v", n, a.Known(), b.Known(), err)
	}
	b.Know(n)
	if err := rename(b, "three"); err != nil {
		t.Error(err)
	}
}

func TestCount_TwoRelays_ShareTheirBuckets(t *testing.T) {
	a, b := relays(t)
	for i := range 10 {
		if wait, err := []*Store{a, b}[i%2].Count(ctx, "k", 1, 1, 10); wait != 0 || err != nil {
			t.Errorf("number %d has to wait %v, %v", i, wait, err)
		}
	}
	for _, s := range []*Store{a, b} {
		if wait, err := s.Count(ctx, "k", 1, 1, 10); wait <= 0 || wait > time.Minute || err != nil {
			t.Errorf("one too many: %v, %v", wait, err)
		}
		if wait, err := s.Look(ctx, "other", 1, 1, 10); wait != 0 || err != nil {
			t.Errorf("another one: %v, %v", wait, err)
		}
	}
	if wait, err := a.Count(ctx, "k2", 11, 1, 10); wait <= 0 || err != nil {
		t.Errorf("more than there ever are: %v, %v", wait, err)
	}
	if err := a.GiveBack(ctx, "k", 1); err != nil {
		t.Fatal(err)
	}
	if wait, err := b.Count(ctx, "k", 1, 1, 10); wait != 0 || err != nil {
		t.Errorf("what was given back: %v, %v", wait, err)
	}
}

// The server cuts all connections off, as at a restart. Nothing that was accepted is lost, and the store goes on.
func TestLostConnections_AreMadeAnew(t *testing.T) {
	a, _ := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	before := entry(1, "before")
	if err := a.Accept(ctx, before); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := a.read.QueryRowContext(ctx, `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if err := postgresServer.Exec(ctx, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+name+`'`); err != nil {
		t.Fatal(err)
	}
	done := before.Entry
	done.State, done.EventID = message.StateSent, "$1"
	a.Report(&Outcome{Entry: done, At: 1})
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = a.Accept(ctx, entry(1, "after")); err == nil {
			break
		}
	}
	if err = errors.Join(err, a.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	if m, err := a.Message(ctx, before.Entry.ID); err != nil || m.State != message.StateSent {
		t.Errorf("the outcome of the time in between: %s, %v", m.State, err)
	}
	if totals, err := a.Totals(ctx); err != nil || totals[1].Sent != 1 {
		t.Errorf("%d are counted as sent, %v", totals[1].Sent, err)
	}
}

// A server that only reads now, as after a failover, is told in a sentence; what is accepted later is stored again.
func TestReadOnlyServer_IsRefusedWithASentence(t *testing.T) {
	onPostgres(t)
	dsn := postgresServer.Database(t)
	s, err := OpenPostgres(ctx, Postgres{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var name string
	if err := s.read.QueryRowContext(ctx, `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		t.Helper()
		for _, statement := range []string{
			`ALTER DATABASE ` + name + ` SET default_transaction_read_only = ` + value,
			`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '` + name + `'`,
		} {
			if err := postgresServer.Exec(ctx, "postgres", statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("on")
	try := func() error { return s.Accept(ctx, entry(1, "x")) }
	said := false
	for end := time.Now().Add(time.Minute); !said && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			t.Fatal("accepted by a server that only reads")
		}
		said = strings.Contains(err.Error(), "read-only standby")
	}
	if !said {
		t.Error("nobody says that the server only reads")
	}
	if _, err := OpenPostgres(ctx, Postgres{DSN: dsn + " target_session_attrs=read-write"}); err == nil || !strings.Contains(err.Error(), "read-only standbys") {
		t.Errorf("opened when all are standbys: %v", err)
	}
	set("off")
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if err := try(); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The one of several hosts that takes changes is found, also for reading.
func TestOpenPostgres_SeveralHosts(t *testing.T) {
	onPostgres(t)
	dsn := postgresServer.Database(t)
	host, rest, _ := strings.Cut(strings.TrimPrefix(dsn, "host="), " ")
	_, rest, _ = strings.Cut(rest, " ") // the port
	_, port, _ := net.SplitHostPort(postgresServer.Address())
	s, err := OpenPostgres(ctx, Postgres{DSN: fmt.Sprintf("host=/nowhere,%s port=%s,%s target_session_attrs=read-write %s", host, port, port, rest), Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	withRoom(t, s)
	if err := s.Accept(ctx, entry(1, "x")); err != nil {
		t.Error(err)
	}
	if _, err := s.read.ExecContext(ctx, `DELETE FROM outbox`); codeOf(err) != pgReadOnly {
		t.Errorf("a reader writes: %v", err)
	}
}

// What a homeserver or a sender may send, and PostgreSQL does not take as text, keeps nothing from being stored.
func TestUnprintableText_IsStored(t *testing.T) {
	s := fresh(t)
	withRoom(t, s)
	a := entry(1, "x")
	if err := s.Accept(ctx, a); err != nil {
		t.Fatal(err)
	}
	const odd = "nul \x00 and \xff"
	e := a.Entry
	e.State, e.Error, e.Code, e.EventID, e.Device = message.StateDead, odd, odd, odd, odd
	s.Report(&Outcome{Entry: e, At: 1, Failure: odd})
	err := errors.Join(s.Settle(ctx), s.SaveRoom(ctx, Room{ID: 1, Address: "!a", Name: odd, Blocked: odd}), s.SavePendingJoin(ctx, PendingJoin{RoomID: "!j", Inviter: odd}))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Message(ctx, e.ID); err != nil || m.State != message.StateDead {
		t.Errorf("%s, %v", m.State, err)
	}
	if _, err := s.Messages(ctx, Filter{Text: odd, Limit: 1}); err != nil {
		t.Error(err)
	}
}

func TestOpenPostgres_Refused_SaysWhy(t *testing.T) {
	onPostgres(t)
	exec := func(database, statement string) {
		t.Helper()
		if err := postgresServer.Exec(ctx, database, statement); err != nil {
			t.Fatal(err)
		}
	}
	good := postgresServer.Database(t)
	_, name, _ := strings.Cut(good, "dbname=")
	name, _, _ = strings.Cut(name, " ")
	exec("postgres", `CREATE USER stranger PASSWORD 'right'`)
	t.Cleanup(func() { exec("postgres", `DROP USER stranger`) })
	foreign, newer := postgresServer.Database(t), postgresServer.Database(t)
	database := func(dsn string) string {
		_, name, _ := strings.Cut(dsn, "dbname=")
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	exec(database(foreign), `CREATE TABLE users (id BIGINT)`)
	s, err := OpenPostgres(ctx, Postgres{DSN: newer})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	exec(database(newer), `INSERT INTO schema_version VALUES (99, 0)`)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(closed.Addr().String())
	_ = closed.Close()
	host, listening, _ := net.SplitHostPort(postgresServer.Address())
	tcp := fmt.Sprintf("host=%s port=%s dbname=%s ", host, listening, name)
	for name, tt := range map[string]struct{ dsn, password, want string }{
		"wrong password":   {tcp + "user=stranger", "wrong", "refuses the user or the password"},
		"no such user":     {tcp + "user=nobody", "x", "refuses the user"},
		"no privilege":     {tcp + "user=stranger", "right", "may not do this"},
		"no such database": {good[:strings.Index(good, "dbname=")] + "dbname=nowhere", "", "does not exist"},
		"no server":        {"host=127.0.0.1 user=u dbname=d port=" + port, "", "cannot connect"},
		"TLS is missing":   {tcp + "user=stranger sslmode=verify-full", "right", "refused TLS"},
		"another's":        {foreign, "", "something else"},
		"newer":            {newer, "", "newer"},
		"nonsense":         {"host=db nonsense sslpassword=secret1", "", "not understood"},
		"bad port":         {"postgres://u:secret1@h:x/d", "", "not understood"},
	} {
		s, err := OpenPostgres(ctx, Postgres{DSN: tt.dsn, Password: tt.password})
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: it was opened", name)
		} else if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret1") {
			t.Errorf("%s: %v, want %q in it", name, err, tt.want)
		}
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

// A message is withdrawn at one relay while the other one stores that it was sent: its event is removed.
func TestWithdraw_SentElsewhereMeanwhile_RemovesTheEvent(t *testing.T) {
	a, b := relays(t)
	x := entry(1, "x")
	if err := a.Accept(ctx, x); err != nil {
		t.Fatal(err)
	}
	sent := elsewhere(t, b, `UPDATE outbox SET state = 'sent', event_id = '$1', final_at = 1 WHERE id = $1`, x.Entry.ID)
	withdrawn := make(chan error, 1)
	var was message.State
	go func() {
		withdrawn <- a.Update(ctx, func(tx *Tx) (err error) {
			was, err = tx.Withdraw(x.Entry.ID, 2)
			return err
		})
	}()
	blocked(t, b)
	if err := errors.Join(sent.Commit(), <-withdrawn); err != nil {
		t.Fatal(err)
	}
	left, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || was != message.StateSent || len(left) != 1 || left[0].Kind != message.Redact || left[0].EventID != "$1" {
		t.Errorf("withdrawn as %s, then %+v, %v", was, left, err)
	}
}

// The relay that delivers stores that a part was sent while the message is withdrawn at another one: no more of it follows.
func TestOutcomeOfAPart_WithdrawnElsewhereMeanwhile_NothingFollows(t *testing.T) {
	a, b := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	x := entry(1, "x")
	if err := a.Accept(ctx, x); err != nil {
		t.Fatal(err)
	}
	sent, part := x.Entry, message.Entry{Kind: message.Part, After: x.Entry.ID, Room: 1, Txn: "p1", QueuedAt: 1}
	sent.State, sent.EventID = message.StateSent, "$1"
	a.Report(&Outcome{Entry: sent, At: 1, FollowUp: &part})
	if err := a.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	found, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(found) != 1 {
		t.Fatalf("the part: %+v, %v", found, err)
	}
	part = *found[0]
	part.State, part.EventID = message.StateSent, "$2"
	withdrawing := elsewhere(t, b, `SELECT 1 FROM outbox WHERE id = $1 FOR UPDATE`, x.Entry.ID)
	a.Report(&Outcome{Entry: part, At: 1, FollowUp: &message.Entry{Kind: message.Part, After: x.Entry.ID, Room: 1, Txn: "p2", QueuedAt: 1}})
	blocked(t, b)
	if _, err := withdrawing.ExecContext(ctx, `UPDATE outbox SET state = 'cancelled', final_at = 1 WHERE after = $1 AND final_at = 0`, x.Entry.ID); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(withdrawing.Commit(), a.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	left, _, err := a.Pending(ctx, 1, 10, 1000, nil)
	if err != nil || len(left) != 1 || left[0].Kind != message.Redact || left[0].EventID != "$2" {
		t.Errorf("what follows: %+v, %v", left, err)
	}
}

// A change that failed says nothing about what another relay has changed since.
func TestAccounts_ChangedByAnotherAfterAFailure_AreStale(t *testing.T) {
	a, b := relays(t)
	n, err := a.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a.Know(n)
	failure := errors.New("no")
	save := func(s *Store, err error) error {
		return s.Update(ctx, func(tx *Tx) error { return errors.Join(tx.SaveUser(&User{ID: 1, Name: "u"}), err) })
	}
	if err := save(a, failure); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	if err := save(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := save(a, nil); !errors.Is(err, ErrStale) {
		t.Errorf("a change of what another relay has changed: %v", err)
	}
}

// Who delivers goes on delivering however much is asked of the database.
func TestLease_ConnectionsAreBusy_IsRenewed(t *testing.T) {
	a, _ := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	for a.pools[0].Stats().InUse < writers {
		conn, err := a.pools[0].Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	if held, err := a.Renew(ctx, time.Hour, ""); !held || err != nil {
		t.Errorf("renewed: %v, %v", held, err)
	}
}
