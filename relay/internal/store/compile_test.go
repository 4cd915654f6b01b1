package store

import (
	"database/sql"
	"embed"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	driver "modernc.org/sqlite"

	"slipway/relay/internal/post"
)

// compilations counts what SQLite compiles over a connection. The statements that are prepared already are compiled once more when
// they are next used.
func compilations(t *testing.T, conn *sql.Conn) *int {
	t.Helper()
	n := 0
	err := conn.Raw(func(c any) error {
		return c.(driver.AuthorizerRegisterer).RegisterAuthorizer(func(action driver.AuthorizerActionCode, _, _, _, _ string) driver.AuthorizerReturnCode {
			switch action {
			case driver.AuthSelect, driver.AuthInsert, driver.AuthUpdate, driver.AuthDelete:
				n++
			}
			return driver.AuthorizerOK
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

func TestMessages_OnTheirWay_CompileNoStatements(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	withRoom(t, s)
	update(t, s, func(tx *Tx) error {
		_, err := tx.RoomAt("!b")
		return err
	})
	s.read.SetMaxOpenConns(1)
	reading, err := s.read.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	written, read := compilations(t, s.w.conn), compilations(t, reading)
	if err := reading.Close(); err != nil {
		t.Fatal(err)
	}

	send := func(n int) {
		for room := int64(1); room <= 2; room++ {
			keyed, refused := entry(room, "a"), entry(room, "b")
			keyed.Key = &Key{Key: fmt.Sprint(room, n), Hash: []byte("x")}
			insert(t, s, keyed)
			insert(t, s, entry(room, "c"), refused, entry(room, "d"))
			for limit := range 3 {
				if _, _, err := s.Pending(ctx, room, limit, 1<<20); err != nil {
					t.Fatal(err)
				}
			}
			for i, e := range pending(t, s, room) {
				if i == 1 {
					found(t, s, *e, post.NotSent{Reason: "busy"}, 1)
					e = pending(t, s, room)[0]
				}
				found(t, s, *e, post.Sent{EventID: "$1"}, 1)
			}
		}
	}
	for n := range 2 {
		send(n)
	}
	*written, *read = 0, 0
	for n := range 2 {
		send(2 + n)
	}
	if *written != 0 || *read != 0 {
		t.Errorf("compiled %d times to write, %d times to read, want never", *written, *read)
	}
}

// The next message of a room is found by indexes alone, however many rooms, applications and messages there are.
func TestPending_ScansNoTable(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	text := pendingText(s.d)
	some := pendingIf(func(s post.State) bool { return s != post.StateRetryWait }, "o.") // as if the others were not sent
	for _, text := range []string{text, strings.Replace(text, pendingIf(post.State.Pending, "o."), some, 1)} {
		var steps []struct{ Detail string }
		if err := s.rows.Raw("EXPLAIN QUERY PLAN "+text, 1, 1).Scan(&steps).Error; err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if strings.HasPrefix(step.Detail, "SCAN") {
				t.Error(step.Detail)
			}
		}
		if len(steps) == 0 {
			t.Error("no plan")
		}
	}
}

// An index of some rows serves the queries that have its condition, word for word.
func TestIndexes_ConditionsAreThoseOfQueries(t *testing.T) {
	for database, files := range map[string]embed.FS{"sqlite": migrations, "postgres": postgresMigrations} {
		schema, err := files.ReadFile("migrations/" + database + "/0001_first.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, index := range []string{
			"outbox_application ON outbox (application_id, id) WHERE kind" + isRead,
			"outbox_pending ON outbox (room, (CASE WHEN place > 0 THEN place ELSE id END), id, application_id) WHERE " + pendingIf(post.State.Pending, ""),
			"outbox_trouble ON outbox (state, id) WHERE state IN " + inTrouble,
			"outbox_delayed ON outbox (next_at) WHERE state = " + isQueued + " AND next_at > 0",
		} {
			if !strings.Contains(string(schema), "INDEX "+index+";") {
				t.Errorf("%s has no index %s", database, index)
			}
		}
	}
}
