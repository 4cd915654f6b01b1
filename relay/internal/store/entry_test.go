package store

import (
	"reflect"
	"slices"
	"testing"

	"slipway/relay/internal/outbox"
)

// Each column of the table is known once, and each belongs to a field of its own.
func TestEntryColumns_AreThoseOfTheTable(t *testing.T) {
	s := fresh(t)
	columns, err := s.columns(ctx, "outbox")
	if err != nil {
		t.Fatal(err)
	}
	want, got := []string{}, []string{"id"}
	for _, c := range columns {
		want = append(want, c.name)
	}
	var e outbox.Entry
	fields := map[any]string{}
	for _, c := range entryColumns {
		got = append(got, c.name)
		if other := fields[c.value(&e)]; other != "" {
			t.Errorf("%s and %s are one field", c.name, other)
		}
		fields[c.value(&e)] = c.name
	}
	slices.Sort(want)
	slices.Sort(got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("columns %v\nwant %v", got, want)
	}
}

// An accepted entry is read back unchanged, and a follow-up has the fields of its target that it needs.
func TestPending_EntryIsWhole(t *testing.T) {
	s := ready(t)
	a := entry(1, "body")
	a.Entry.Content = outbox.Content{Title: "T", Body: "body", ContentType: "text/plain", Extras: `{"a":1}`, Priority: -1, Mentions: "@a:hs", Note: "note"}
	a.Entry.Thread, a.Entry.Key, a.Entry.Resolves, a.Entry.EventAt, a.Entry.Source = "thread", "key", true, 7, "api"
	accept(t, s, a)
	found := pending(t, s, 1)
	if len(found) != 1 {
		t.Fatalf("%d entries", len(found))
	}
	want := a.Entry
	want.Choice = found[0].Choice
	if !reflect.DeepEqual(*found[0], want) {
		t.Errorf("%+v\nwant %+v", *found[0], want)
	}
}

// A change of the content writes all of it.
func TestEntryColumns_ContentIsWrittenAgain(t *testing.T) {
	var e outbox.Entry
	written := map[any]bool{}
	for _, v := range valuesWritten(&e, byChanges) {
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
	for _, c := range entryColumns {
		if c.written&bySteps == 0 || c.name == "state" || c.name == "final_at" {
			continue
		}
		switch v := c.value(&e).(type) {
		case *string:
			*v = "before"
		case *int:
			*v = 7
		case *int64:
			*v = 7
		case *bool:
			*v = true
		case *[]byte:
			*v = []byte("before")
		default:
			t.Fatalf("%s is a %T", c.name, v)
		}
	}
	check := func(want outbox.Entry) {
		t.Helper()
		err := s.Update(ctx, func(tx *Tx) error {
			got, err := tx.loadEntry(want.ID)
			for _, c := range entryColumns {
				if g, w := reflect.ValueOf(c.value(&got)).Elem().Interface(), reflect.ValueOf(c.value(&want)).Elem().Interface(); !reflect.DeepEqual(g, w) {
					t.Errorf("%s is %v, want %v", c.name, g, w)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	update(t, s, func(tx *Tx) error {
		_, err := tx.saveEntry(&e, was)
		return err
	})
	check(e)
	o := NewOutcome(e, outbox.Sent{EventID: "$e"}, 9)
	if !o.plain() {
		t.Fatal("the outcome isn't plain")
	}
	s.Report(o)
	settle(t, s)
	check(o.Entry)
}
