package store

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"slipway/relay/internal/post"
)

// Each column of the table belongs to a field of an entry.
func TestEntryColumns_AreThoseOfTheTable(t *testing.T) {
	s := fresh(t)
	columns, err := s.columns(ctx, "outbox")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, c := range columns {
		want = append(want, c.name)
	}
	for _, c := range allColumns {
		got = append(got, c.name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("columns %v\nwant %v", got, want)
	}
}

// fillColumns gives the fields of columns a value, except those of the columns named.
func fillColumns(t *testing.T, e *post.Entry, all entryColumns, except ...string) {
	t.Helper()
	fields := all.of(e)
	for i, c := range all {
		if slices.Contains(except, c.name) {
			continue
		}
		switch v := fields[i].(type) {
		case *string:
			*v = c.name
		case *int:
			*v = 7
		case *int64:
			*v = 7
		case *bool:
			*v = true
		case *[]byte:
			*v = []byte(c.name)
		default:
			t.Fatalf("%s is a %T", c.name, v)
		}
	}
}

// load returns an entry as the steps of the store read it: by the names of the fields.
func load(t *testing.T, s *Store, id int64) (e post.Entry) {
	t.Helper()
	update(t, s, func(tx *Tx) (err error) {
		e, err = tx.Entry(id)
		return err
	})
	return e
}

// An accepted entry is read back unchanged, by the columns' list and by the fields' names; characters that a database refuses are removed.
func TestPending_EntryIsWhole(t *testing.T) {
	s := ready(t)
	a := entry(1, "body")
	fillColumns(t, &a.Entry, insertColumns, "kind", "target", "place", "room", "application_id", "state", "next_at")
	a.Entry.Note = "a\x00b"
	insert(t, s, a)
	if a.Entry.Note != "ab" {
		t.Errorf("note %q", a.Entry.Note)
	}
	found := pending(t, s, 1)
	if len(found) != 1 {
		t.Fatalf("%d entries", len(found))
	}
	if got := load(t, s, a.Entry.ID); !reflect.DeepEqual(got, a.Entry) {
		t.Errorf("loaded %+v\nwant %+v", got, a.Entry)
	}
	want := a.Entry
	want.Choice = found[0].Choice
	if !reflect.DeepEqual(*found[0], want) {
		t.Errorf("%+v\nwant %+v", *found[0], want)
	}
}

// A change of the content writes all of it.
func TestEntryColumns_ContentIsWrittenAgain(t *testing.T) {
	var e post.Entry
	written := map[any]bool{}
	for _, v := range editColumns.of(&e) {
		written[v] = true
	}
	content := reflect.ValueOf(&e.Content).Elem()
	for i := range content.NumField() {
		if !written[content.Field(i).Addr().Interface()] {
			t.Errorf("%s isn't written", content.Type().Field(i).Name)
		}
	}
	if !written[&e.Resolves] || !written[&e.RevisedAt] {
		t.Error("what a change of the content says besides isn't written")
	}
}

// All that a step changes is written, by the statement for messages that were sent as well.
func TestOutcome_OfASentMessage_IsStoredWhole(t *testing.T) {
	s, a := readyWithMessage(t)
	e := a.Entry
	was := e.Version()
	fillColumns(t, &e, stepColumns, "state", "final_at")
	update(t, s, func(tx *Tx) error {
		_, err := tx.saveEntry(&e, was)
		return err
	})
	if got := load(t, s, e.ID); !reflect.DeepEqual(got, e) {
		t.Errorf("after a step: %+v\nwant %+v", got, e)
	}
	o := NewOutcome(e, post.Sent{EventID: "$e"}, 9)
	if !o.plain() {
		t.Fatal("the outcome isn't plain")
	}
	s.Record(o)
	settle(t, s)
	if got := load(t, s, e.ID); !reflect.DeepEqual(got, o.Entry) {
		t.Errorf("after it was sent, by sentText: %+v\nwant %+v", got, o.Entry)
	}
}

// The listener hears of a message as Pending returns it.
func TestChange_HasTheMessage(t *testing.T) {
	s := ready(t)
	heard := &messages{}
	s.Listen(heard)
	all := []*Incoming{entry(1, "a\x00b"), entry(1, "later"), entry(1, "reply"), entry(1, "x")}
	all[0].Entry.Content = post.Content{Title: "t", Body: "a\x00b", ContentType: "text/plain", Extras: `{"a":1}`, Priority: 2, GotifyScale: 9, Mentions: "room", Note: "n"}
	all[0].Entry.Source, all[0].Entry.Thread, all[0].Entry.Key, all[0].Entry.EventAt, all[0].Entry.Trace = "s", "th", "k", 7, "tr"
	all[1].Entry.NextAt = time.Now().Add(time.Hour).UnixMilli()
	all[2].Entry.Kind, all[2].Entry.Target = post.KindReply, 1
	all[3].Relate = func(tx *Tx, a *Incoming) error { return tx.Insert(&a.Entry) }
	insert(t, s, all...)
	read := *pending(t, s, 1)[0]
	read.FromApplication = post.FromApplication{}
	if len(heard.all) != 1 || !reflect.DeepEqual(heard.all[0], read) {
		t.Errorf("heard of %+v\nread %+v", heard.all, read)
	}
}

// messages is a [Listener] that keeps the messages it hears of.
type messages struct{ all []post.Entry }

// Changed implements [Listener].
func (m *messages) Changed(c Change) {
	if c.Message != nil {
		m.all = append(m.all, *c.Message)
	}
}

// NotStored implements [Listener].
func (*messages) NotStored(error) {}

func (*messages) InFlight(int64, int64) (int64, string) { return 0, "" }
