package store

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"slipway/relay/internal/post"
)

// attachment stores a file of two chunks.
func attachment(t *testing.T, s *Store, now int64) post.Attachment {
	t.Helper()
	id, err := s.AddChunk(ctx, 0, 0, bytes.Repeat([]byte("a"), ChunkSize), now)
	if err == nil {
		_, err = s.AddChunk(ctx, id, 1, []byte("b\x00\xff"), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return post.Attachment{ID: id, Name: "a.bin", Type: "application/octet-stream", Size: ChunkSize + 3}
}

// content reads an attachment; it is "" if that is gone.
func content(t *testing.T, s *Store, id int64) string {
	t.Helper()
	r, err := s.Attachment(ctx, id)
	if IsMissing(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// An attachment lasts as long as it may be sent: it is gone when it is sent, with its message, or if no message comes.
func TestAttachment(t *testing.T) {
	s := ready(t)
	whole := string(bytes.Repeat([]byte("a"), ChunkSize)) + "b\x00\xff"
	sent, dead, unused, dropped := attachment(t, s, 1), attachment(t, s, 1), attachment(t, s, 1), attachment(t, s, 1)
	with := func(a post.Attachment) *Incoming {
		e := entry(1, "m")
		e.Entry.Attachments = post.EncodeAttachments([]post.Attachment{a})
		return e
	}
	first, second := with(sent), with(dead)
	insert(t, s, first, second)
	if err := s.DropAttachments(ctx, []int64{sent.ID, dropped.ID}); err != nil { // the first is a message's
		t.Fatal(err)
	}
	if err := s.Tidy(ctx, 2*unusedKept.Milliseconds(), 0, 0); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[int64]string{sent.ID: whole, dead.ID: whole, unused.ID: "", dropped.ID: ""} {
		if got := content(t, s, id); got != want {
			t.Errorf("attachment %d has %d bytes, want %d", id, len(got), len(want))
		}
	}
	s.Record(NewOutcome(first.Entry, post.Sent{EventID: "$1", Rest: first.Entry.Attached(1)}, 1))
	found(t, s, second.Entry, post.Refused{}, 1)
	if content(t, s, sent.ID) != whole || content(t, s, dead.ID) != whole {
		t.Error("an attachment is gone with the outcome of its message")
	}
	waiting := pending(t, s, 1)
	if len(waiting) != 1 || waiting[0].Kind != post.KindMedia || waiting[0].Target != first.Entry.ID {
		t.Fatalf("there wait %+v", waiting)
	}
	found(t, s, *waiting[0], post.Sent{EventID: "$2"}, 1)
	if content(t, s, sent.ID) != "" || content(t, s, dead.ID) != whole {
		t.Error("what was sent is kept, or what may be sent again is not")
	}
	if _, err := s.PurgeOld(ctx, 0, second.Entry.AcceptedAt+1, 10); err != nil {
		t.Fatal(err)
	}
	if content(t, s, dead.ID) != "" {
		t.Error("the attachment of a message outlives it")
	}
	for _, table := range []string{"attachments", "attachment_chunks"} {
		var n int
		if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d rows of %s are left, %v", n, table, err)
		}
	}
}

// Attachments of a message that was given up are removed after a time, also where its history is kept. Those of a message that waits
// are not.
func TestAttachment_GivenUp(t *testing.T) {
	s := ready(t)
	var all []*Incoming
	for range 3 {
		m := entry(1, "m")
		m.Entry.Attachments = post.EncodeAttachments([]post.Attachment{attachment(t, s, 1000)})
		all = append(all, m)
	}
	dead, waits, sent := all[0], all[1], all[2]
	insert(t, s, all...)
	s.Record(NewOutcome(dead.Entry, post.Refused{}, 1))
	s.Record(NewOutcome(sent.Entry, post.Sent{EventID: "$1", Rest: sent.Entry.Attached(1)}, 1)) // its attachment waits
	settle(t, s)
	size := func(a *Incoming) int { return len(content(t, s, post.DecodeAttachments(a.Entry.Attachments)[0].ID)) }
	for _, old := range []int64{1000, 1001} {
		if err := s.Tidy(ctx, 0, old, 0); err != nil {
			t.Fatal(err)
		}
		if size(waits) == 0 || size(sent) == 0 || (size(dead) > 0) != (old == 1000) {
			t.Errorf("before %d: %d of the dead one, %d and %d of those that wait", old, size(dead), size(waits), size(sent))
		}
	}
}

// A withdrawn attachment is gone at once, and one that is being read meanwhile doesn't end early.
func TestAttachment_Withdrawn(t *testing.T) {
	s := ready(t)
	a := attachment(t, s, 1)
	m := entry(1, "m")
	m.Entry.Attachments = post.EncodeAttachments([]post.Attachment{a})
	insert(t, s, m)
	found(t, s, m.Entry, post.Sent{EventID: "$1", Rest: m.Entry.Attached(1)}, 1)
	reading, err := s.Attachment(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx *Tx) error { return tx.Withdraw(m.Entry.ID, 2) })
	if got := content(t, s, a.ID); got != "" {
		t.Errorf("%d bytes are left", len(got))
	}
	if b, err := io.ReadAll(reading); err == nil {
		t.Errorf("the end is read after %d bytes", len(b))
	}
}

// So are those of a message that is withdrawn before it is sent.
func TestAttachment_WithdrawnBefore(t *testing.T) {
	s := ready(t)
	a, other := attachment(t, s, 1), attachment(t, s, 1)
	m := entry(1, "m")
	m.Entry.Attachments = post.EncodeAttachments([]post.Attachment{a})
	insert(t, s, m)
	update(t, s, func(tx *Tx) error { return tx.Withdraw(m.Entry.ID, 2) })
	if content(t, s, a.ID) != "" || content(t, s, other.ID) == "" {
		t.Error("the attachment of the message is left, or another is gone")
	}
}

func TestCopy_Attachments(t *testing.T) {
	from := fresh(t)
	a := attachment(t, from, 1)
	to := open(t, filepath.Join(t.TempDir(), "copy.db"))
	if err := Copy(ctx, from, to, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	if content(t, to, a.ID) != content(t, from, a.ID) {
		t.Error("the copy has another content")
	}
}
