package store

import (
	"strings"

	"slipway/relay/internal/outbox"
)

// entryColumn is a column of the outbox.
type entryColumn struct {
	name  string
	value func(*outbox.Entry) any // points at the entry's field
	born  bool                    // it is written with a new entry; the others then have their default
}

// entryColumns are all columns of the outbox but the id.
var entryColumns = []entryColumn{
	{"kind", func(e *outbox.Entry) any { return &e.Kind }, true},
	{"target", func(e *outbox.Entry) any { return &e.Target }, true},
	{"place", func(e *outbox.Entry) any { return &e.Place }, true},
	{"room", func(e *outbox.Entry) any { return &e.Room }, true},
	{"application_id", func(e *outbox.Entry) any { return &e.ApplicationID }, true},
	{"accepted_at", func(e *outbox.Entry) any { return &e.AcceptedAt }, true},
	{"source", func(e *outbox.Entry) any { return &e.Source }, true},
	{"thread", func(e *outbox.Entry) any { return &e.Thread }, true},
	{"key", func(e *outbox.Entry) any { return &e.Key }, true},
	{"resolves", func(e *outbox.Entry) any { return &e.Resolves }, true},
	{"event_at", func(e *outbox.Entry) any { return &e.EventAt }, true},
	{"title", func(e *outbox.Entry) any { return &e.Title }, true},
	{"body", func(e *outbox.Entry) any { return &e.Body }, true},
	{"content_type", func(e *outbox.Entry) any { return &e.ContentType }, true},
	{"extras", func(e *outbox.Entry) any { return &e.Extras }, true},
	{"attachments", func(e *outbox.Entry) any { return &e.Attachments }, true},
	{"priority", func(e *outbox.Entry) any { return &e.Priority }, true},
	{"gotify_scale", func(e *outbox.Entry) any { return &e.GotifyScale }, true},
	{"whom", func(e *outbox.Entry) any { return &e.Whom }, true},
	{"note", func(e *outbox.Entry) any { return &e.Note }, true},
	{"txn", func(e *outbox.Entry) any { return &e.Txn }, true},
	{"queued_at", func(e *outbox.Entry) any { return &e.QueuedAt }, true},
	{"state", func(e *outbox.Entry) any { return &e.State }, true},
	{"event_id", func(e *outbox.Entry) any { return &e.EventID }, true},
	{"marker", func(e *outbox.Entry) any { return &e.Marker }, true},
	{"attempts", func(e *outbox.Entry) any { return &e.Attempts }, false},
	{"next_at", func(e *outbox.Entry) any { return &e.NextAt }, true},
	{"first_attempt_at", func(e *outbox.Entry) any { return &e.FirstAttemptAt }, false},
	{"final_at", func(e *outbox.Entry) any { return &e.FinalAt }, false},
	{"device", func(e *outbox.Entry) any { return &e.Device }, false},
	{"event_type", func(e *outbox.Entry) any { return &e.EventType }, false},
	{"wire", func(e *outbox.Entry) any { return &e.Wire }, false},
	{"cut", func(e *outbox.Entry) any { return &e.Cut }, false},
	{"root", func(e *outbox.Entry) any { return &e.Root }, false},
	{"revised_at", func(e *outbox.Entry) any { return &e.RevisedAt }, false},
	{"error", func(e *outbox.Entry) any { return &e.Error }, false},
	{"code", func(e *outbox.Entry) any { return &e.Code }, false},
}

// bornColumns returns the names of the columns that are written with a new entry.
func bornColumns() (names []string) {
	for _, c := range entryColumns {
		if c.born {
			names = append(names, c.name)
		}
	}
	return names
}

// bornValues returns what is written of a new entry.
func bornValues(e *outbox.Entry) (values []any) {
	for _, c := range entryColumns {
		if c.born {
			values = append(values, c.value(e))
		}
	}
	return values
}

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
