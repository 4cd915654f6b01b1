package store

import (
	"strings"

	"slipway/relay/internal/outbox"
)

// entryColumn is a column of the outbox.
type entryColumn struct {
	name    string
	value   func(*outbox.Entry) any // points at the entry's field
	written written
}

type written int

// When a column is written.

const (
	byStep written = iota // as steps go; until then it has its default
	once                  // with a new entry, and perhaps by steps
	again                 // with a new entry, and whenever its content changes
)

// entryColumns are all columns of the outbox but the id.
var entryColumns = []entryColumn{
	{"kind", func(e *outbox.Entry) any { return &e.Kind }, once},
	{"target", func(e *outbox.Entry) any { return &e.Target }, once},
	{"place", func(e *outbox.Entry) any { return &e.Place }, once},
	{"room", func(e *outbox.Entry) any { return &e.Room }, once},
	{"application_id", func(e *outbox.Entry) any { return &e.ApplicationID }, once},
	{"accepted_at", func(e *outbox.Entry) any { return &e.AcceptedAt }, once},
	{"source", func(e *outbox.Entry) any { return &e.Source }, once},
	{"thread", func(e *outbox.Entry) any { return &e.Thread }, once},
	{"key", func(e *outbox.Entry) any { return &e.Key }, once},
	{"resolves", func(e *outbox.Entry) any { return &e.Resolves }, again},
	{"event_at", func(e *outbox.Entry) any { return &e.EventAt }, once},
	{"title", func(e *outbox.Entry) any { return &e.Title }, again},
	{"body", func(e *outbox.Entry) any { return &e.Body }, again},
	{"content_type", func(e *outbox.Entry) any { return &e.ContentType }, again},
	{"extras", func(e *outbox.Entry) any { return &e.Extras }, again},
	{"attachments", func(e *outbox.Entry) any { return &e.Attachments }, again},
	{"priority", func(e *outbox.Entry) any { return &e.Priority }, again},
	{"gotify_scale", func(e *outbox.Entry) any { return &e.GotifyScale }, again},
	{"whom", func(e *outbox.Entry) any { return &e.Whom }, again},
	{"note", func(e *outbox.Entry) any { return &e.Note }, again},
	{"txn", func(e *outbox.Entry) any { return &e.Txn }, once},
	{"queued_at", func(e *outbox.Entry) any { return &e.QueuedAt }, once},
	{"state", func(e *outbox.Entry) any { return &e.State }, once},
	{"event_id", func(e *outbox.Entry) any { return &e.EventID }, once},
	{"marker", func(e *outbox.Entry) any { return &e.Marker }, once},
	{"attempts", func(e *outbox.Entry) any { return &e.Attempts }, byStep},
	{"next_at", func(e *outbox.Entry) any { return &e.NextAt }, once},
	{"first_attempt_at", func(e *outbox.Entry) any { return &e.FirstAttemptAt }, byStep},
	{"final_at", func(e *outbox.Entry) any { return &e.FinalAt }, byStep},
	{"device", func(e *outbox.Entry) any { return &e.Device }, byStep},
	{"event_type", func(e *outbox.Entry) any { return &e.EventType }, byStep},
	{"wire", func(e *outbox.Entry) any { return &e.Wire }, byStep},
	{"cut", func(e *outbox.Entry) any { return &e.Cut }, byStep},
	{"root", func(e *outbox.Entry) any { return &e.Root }, byStep},
	{"revised_at", func(e *outbox.Entry) any { return &e.RevisedAt }, again},
	{"error", func(e *outbox.Entry) any { return &e.Error }, byStep},
	{"code", func(e *outbox.Entry) any { return &e.Code }, byStep},
}

// columnsWritten returns the names of the columns that are written at least as often.
func columnsWritten(w written) (names []string) {
	for _, c := range entryColumns {
		if c.written >= w {
			names = append(names, c.name)
		}
	}
	return names
}

// valuesWritten returns what is written of an entry into these columns.
func valuesWritten(e *outbox.Entry, w written) (all []any) {
	for _, c := range entryColumns {
		if c.written >= w {
			all = append(all, c.value(e))
		}
	}
	return all
}

// contentText writes the content of an entry.
var contentText = `UPDATE outbox SET ` + strings.Join(columnsWritten(again), " = ?, ") + ` = ? WHERE id = ?`

// loadedColumns are all columns of a row o of the outbox.
func loadedColumns() string {
	names := []string{"o.id"}
	for _, c := range entryColumns {
		names = append(names, "o."+c.name)
	}
	return strings.Join(names, ", ")
}

// into returns where loadedColumns are read into.
func into(e *outbox.Entry) []any {
	fields := []any{&e.ID}
	for _, c := range entryColumns {
		fields = append(fields, c.value(e))
	}
	return fields
}
