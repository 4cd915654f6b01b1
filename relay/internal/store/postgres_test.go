package store

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// The server cuts all connections off, as at a restart. Nothing that was accepted is lost, and the store continues.
func testLostConnections_AreMadeAnew(t *testing.T) {
	a, _ := relays(t)
	if !acquire(t, a, time.Hour) {
		t.Fatal("no lease")
	}
	before := entry(1, "before")
	insert(t, a, before)
	var name string
	if err := a.read.QueryRowContext(ctx, `SELECT current_database()`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	if err := postgresServer.Exec(ctx, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+name+`'`); err != nil {
		t.Fatal(err)
	}
	a.Record(NewOutcome(before.Entry, post.Sent{EventID: "$1"}, 1))
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = a.Insert(ctx, entry(1, "after")); err == nil {
			break
		}
	}
	if err = errors.Join(err, a.Settle(ctx)); err != nil {
		t.Fatal(err)
	}
	if m, err := a.Message(ctx, before.Entry.ID); err != nil || m.State != post.StateSent {
		t.Errorf("the outcome of the time in between: %s, %v", m.State, err)
	}
	if app, err := a.Application(ctx, 1); err != nil || app.Sent != 1 {
		t.Errorf("%d are counted as sent, %v", app.Sent, err)
	}
}

// A server that is stopped keeps its connections and answers nothing: what is read fails in time, also what has to wait for a
// connection, and succeeds again later.
func testFrozenServer_ReadsEndInTime(t *testing.T) {
	server, err := servertest.StartPostgres(ctx, servertest.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	const bound, slack = 3 * time.Second, 2 * time.Second // a second bound, for a connection or a ping, would exceed it
	s, err := OpenPostgres(ctx, Postgres{DSN: server.DSN("postgres") + " connect_timeout=20", readWithin: bound})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	withRoom(t, s)
	a := entry(1, "x")
	insert(t, s, a)
	reads := map[string]func() error{
		"entries":  func() error { _, _, err := s.Pending(ctx, 1, 1, 1); return err },
		"message":  func() error { _, err := s.Message(ctx, a.Entry.ID); return err },
		"messages": func() error { _, _, err := s.Messages(ctx, 0, Filter{Limit: 1}); return err },
		"waiting":  func() error { s.feed.depth.counted = time.Time{}; _, err := s.Waiting(ctx); return err },
		"oldest":   func() error { _, err := s.Oldest(ctx); return err },
	}
	try := func(want bool) {
		t.Helper()
		for name, read := range reads {
			began := time.Now()
			if err := read(); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); !want && took > bound+slack {
				t.Errorf("%s fails after %v, which is more than one bound", name, took)
			}
		}
	}
	try(true)
	time.Sleep(1100 * time.Millisecond) // pgx pings a connection that was idle for a second
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	try(false)
	var wg sync.WaitGroup
	for range 4 * readers {
		wg.Go(func() {
			if reads["message"]() == nil {
				t.Error("one of many succeeds")
			}
		})
	}
	wg.Wait()
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); reads["message"]() != nil && time.Now().Before(end); { // connections are replaced
		time.Sleep(10 * time.Millisecond)
	}
	try(true)
}

// A server that only reads now, as after a failover, is told in a sentence; what is accepted later is stored again.
func testReadOnlyServer_IsRefusedWithASentence(t *testing.T) {
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
	try := func() error { return s.Insert(ctx, entry(1, "x")) }
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
func testOpenPostgres_SeveralHosts(t *testing.T) {
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
	if err := s.Insert(ctx, entry(1, "x")); err != nil {
		t.Error(err)
	}
	if _, err := s.read.ExecContext(ctx, `DELETE FROM outbox`); codeOf(err) != pgReadOnly {
		t.Errorf("a reader writes: %v", err)
	}
}

// What a homeserver or a sender may send, and PostgreSQL does not take as text, keeps nothing from being stored.
func TestUnprintableText_IsStored(t *testing.T) {
	s, a := readyWithMessage(t)
	const odd = "nul \x00 and \xff"
	e := a.Entry
	e.EventID, e.Device = odd, odd
	s.Record(NewOutcome(e, post.Refused{Reason: odd, Code: odd}, 1))
	err := errors.Join(s.Settle(ctx), s.SaveRoom(ctx, Room{ID: 1, Address: "!a", Name: odd, Blocked: odd}), s.SavePendingJoin(ctx, PendingJoin{RoomID: "!j", Inviter: odd}))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Message(ctx, e.ID); err != nil || m.State != post.StateDead {
		t.Errorf("%s, %v", m.State, err)
	}
	if _, _, err := s.Messages(ctx, 0, Filter{Text: odd, Limit: 1}); err != nil {
		t.Error(err)
	}
}

func testOpenPostgres_Refused_SaysWhy(t *testing.T) {
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
	_, port, _ := net.SplitHostPort(programtest.FreeAddr(t)) // where nobody listens
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
		"nonsense":         {"host=db nonsense sslpassword=secret1", "", "cannot parse the connection string"},
		"bad port":         {"postgres://u:secret1@h:x/d", "", "cannot parse the connection string"},
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

// A scan that no index spares the writer is priced as if it were long: to compile it would hold up the commit for some 100 ms.
func testWriter_ScansATable_CompilesNothing(t *testing.T) {
	s := fresh(t)
	var plan []string
	err := s.Update(ctx, func(tx *Tx) error {
		return tx.db.Raw(`EXPLAIN SELECT count(*) FROM applications WHERE mention = 'a'`).Scan(&plan).Error
	})
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "Seq Scan") || strings.Contains(text, "JIT") {
		t.Errorf("%s\n%v", text, err)
	}
}

// A read keeps nothing once it has ended, such as the timer that bounds it.
func testReads_KeepNothing(t *testing.T) {
	s, err := OpenPostgres(ctx, Postgres{DSN: postgresServer.Database(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	objects := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapObjects)
	}
	read := func(n int) {
		for range n {
			if _, err := s.Oldest(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	read(100)
	before := objects()
	read(2000)
	if kept := objects() - before; kept > 2000 {
		t.Errorf("2000 reads keep %d objects", kept)
	}
}
