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

// written is when a column is written, a set.
type written int

const (
	atFirst   written = 1 << iota // with a new entry; the other columns have their defaults then
	bySteps                       // with the result of each step
	byChanges                     // with a changed content
)

// entryColumns are all columns of the outbox but the id.
var entryColumns = []entryColumn{
	{"kind", func(e *outbox.Entry) any { return &e.Kind }, atFirst},
	{"target", func(e *outbox.Entry) any { return &e.Target }, atFirst},
	{"place", func(e *outbox.Entry) any { return &e.Place }, atFirst},
	{"room", func(e *outbox.Entry) any { return &e.Room }, atFirst},
	{"application_id", func(e *outbox.Entry) any { return &e.ApplicationID }, atFirst},
	{"accepted_at", func(e *outbox.Entry) any { return &e.AcceptedAt }, atFirst},
	{"source", func(e *outbox.Entry) any { return &e.Source }, atFirst},
	{"thread", func(e *outbox.Entry) any { return &e.Thread }, atFirst},
	{"key", func(e *outbox.Entry) any { return &e.Key }, atFirst},
	{"resolves", func(e *outbox.Entry) any { return &e.Resolves }, atFirst | byChanges},
	{"event_at", func(e *outbox.Entry) any { return &e.EventAt }, atFirst},
	{"title", func(e *outbox.Entry) any { return &e.Title }, atFirst | byChanges},
	{"body", func(e *outbox.Entry) any { return &e.Body }, atFirst | byChanges},
	{"content_type", func(e *outbox.Entry) any { return &e.ContentType }, atFirst | byChanges},
	{"extras", func(e *outbox.Entry) any { return &e.Extras }, atFirst | byChanges},
	{"attachments", func(e *outbox.Entry) any { return &e.Attachments }, atFirst | byChanges},
	{"priority", func(e *outbox.Entry) any { return &e.Priority }, atFirst | byChanges},
	{"gotify_scale", func(e *outbox.Entry) any { return &e.GotifyScale }, atFirst | byChanges},
	{"mentions", func(e *outbox.Entry) any { return &e.Mentions }, atFirst | byChanges},
	{"note", func(e *outbox.Entry) any { return &e.Note }, atFirst | byChanges},
	{"txn", func(e *outbox.Entry) any { return &e.Txn }, atFirst | bySteps},
	{"queued_at", func(e *outbox.Entry) any { return &e.QueuedAt }, atFirst | bySteps},
	{"state", func(e *outbox.Entry) any { return &e.State }, atFirst | bySteps},
	{"event_id", func(e *outbox.Entry) any { return &e.EventID }, atFirst | bySteps},
	{"marker", func(e *outbox.Entry) any { return &e.Marker }, atFirst},
	{"attempts", func(e *outbox.Entry) any { return &e.Attempts }, bySteps},
	{"next_at", func(e *outbox.Entry) any { return &e.NextAt }, atFirst | bySteps},
	{"first_attempt_at", func(e *outbox.Entry) any { return &e.FirstAttemptAt }, bySteps},
	{"final_at", func(e *outbox.Entry) any { return &e.FinalAt }, bySteps},
	{"device", func(e *outbox.Entry) any { return &e.Device }, bySteps},
	{"event_type", func(e *outbox.Entry) any { return &e.EventType }, bySteps},
	{"wire", func(e *outbox.Entry) any { return &e.Wire }, bySteps},
	{"cut", func(e *outbox.Entry) any { return &e.Cut }, bySteps},
	{"root", func(e *outbox.Entry) any { return &e.Root }, bySteps},
	{"revised_at", func(e *outbox.Entry) any { return &e.RevisedAt }, atFirst | byChanges},
	{"error", func(e *outbox.Entry) any { return &e.Error }, bySteps},
	{"code", func(e *outbox.Entry) any { return &e.Code }, bySteps},
}

// columnsWritten returns the names of the columns that are written at a time.
func columnsWritten(w written) (names []string) {
	for _, c := range entryColumns {
		if c.written&w != 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// valuesWritten returns what is written of an entry at a time.
func valuesWritten(e *outbox.Entry, w written) (all []any) {
	for _, c := range entryColumns {
		if c.written&w != 0 {
			all = append(all, c.value(e))
		}
	}
	return all
}

var (
	// contentText writes the content of an entry.
	contentText = `UPDATE outbox SET ` + strings.Join(columnsWritten(byChanges), " = ?, ") + ` = ? WHERE id = ?`

	// outcomeText writes what a step made of an entry that has a version.
	outcomeText = `UPDATE outbox SET ` + strings.Join(columnsWritten(bySteps), " = ?, ") + ` = ? WHERE id = ? AND state = ? AND attempts = ? AND revised_at = ?`
)

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
