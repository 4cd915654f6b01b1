package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"

	"slipway/relay/internal/message"
)

// Filter selects messages, newest first.
type Filter struct {
	Owner       int64 // of the application; 0: any
	Application int64
	States      []message.State // none: any. One that is on its way is blocked, and in no other state, while its room is
	Text        string
	Since       int64
	Until       int64
	Before      int64
	Limit       int
}

// Message returns a message by its id, and its application's owner.
func (s *Store) Message(ctx context.Context, id int64) (message.Message, error) {
	all, err := s.messages(ctx, s.d.byMessage()+` WHERE m.id = ?`, id)
	if err == nil && len(all) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return message.Message{}, err
	}
	return all[0], nil
}

// Messages returns the messages that f selects.
func (s *Store) Messages(ctx context.Context, f Filter) ([]message.Message, error) {
	where, args := f.where(s.d)
	return s.messages(ctx, f.from(s.d)+where+` ORDER BY m.id DESC LIMIT ?`, append(args, f.Limit)...)
}

func (d *dialect) byMessage() string {
	return ` FROM messages m ` + d.crossJoin + ` outbox o ON o.id = m.id` + around
}

const around = ` JOIN rooms r ON r.id = o.room LEFT JOIN applications a ON a.id = m.application_id`

// from says where to begin. What is on its way or in trouble is few among many, and has an index of its own.
func (f Filter) from(d *dialect) string {
	moving, trouble := false, false
	for _, s := range f.States {
		switch {
		case s.Pending():
			moving = true
		case s == message.StateAmbiguous || s == message.StateDead:
			trouble = true
		default:
			return d.byMessage()
		}
	}
	switch {
	case moving && !trouble:
		return ` FROM outbox o ` + d.by("outbox_pending") + ` ` + d.crossJoin + ` messages m ON m.id = o.id AND o.final_at = 0` + around
	case trouble && !moving:
		return ` FROM outbox o ` + d.by("outbox_trouble") + ` ` + d.crossJoin + ` messages m ON m.id = o.id AND o.state IN ('ambiguous', 'dead')` + around
	}
	return d.byMessage()
}

// removing says whether a removal follows the message of a row o of the outbox.
const removing = `EXISTS (SELECT 1 FROM outbox f WHERE f.after = o.id AND f.after > 0 AND f.kind = 1 AND f.final_at = 0)`

func (s *Store) messages(ctx context.Context, tail string, args ...any) ([]message.Message, error) {
	rows, err := s.query(ctx, `SELECT m.id, m.application_id, coalesce(a.name, ''), coalesce(a.owner_id, 0), m.title, m.body, m.content_type, coalesce(m.extras, ''),
		m.priority, m.source, r.id, r.address, r.room_id, r.blocked, m.accepted_at, o.state, o.attempts, o.next_at, o.error, o.code, o.event_id, o.final_at, `+removing+tail, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []message.Message
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, rows.Err()
}

func scanMessage(rows *sql.Rows) (m message.Message, err error) {
	var extras string
	var room Room
	var accepted, next, final int64
	err = rows.Scan(&m.ID, &m.ApplicationID, &m.ApplicationName, &m.OwnerID, &m.Title, &m.Body, &m.ContentType, &extras,
		&m.Priority, &m.Source, &room.ID, &room.Address, &room.RoomID, &room.Blocked, &accepted, &m.State, &m.Attempts, &next, &m.Error, &m.ErrorCode,
		&m.EventID, &final, &m.Removing)
	m.AcceptedAt, m.NextAttempt, m.RoomID = Time(accepted), Time(next), room.RoomID
	if extras != "" {
		m.Extras = json.RawMessage(extras)
	}
	if !room.ToMake() {
		m.Room = room.Address
	}
	if m.State == message.StateSent || m.State == message.StateRedacted {
		m.SentAt = Time(final)
	}
	if m.State.Pending() && room.Blocked != "" {
		m.State, m.Error = message.StateBlocked, room.Blocked
	}
	m.RoomRow = room.ID
	return m, err
}

// where spells the filter as SQL.
func (f Filter) where(d *dialect) (string, []any) {
	var terms []string
	var args []any
	add := func(term string, values ...any) {
		terms = append(terms, term)
		args = append(args, values...)
	}
	// The + keeps SQLite from sorting all messages of all these applications.
	switch {
	case f.Owner != 0:
		add(`+m.application_id IN (SELECT id FROM applications WHERE owner_id = ? AND deleted_at = 0)`, f.Owner)
	case f.Application == 0:
		add(`+m.application_id IN (SELECT id FROM applications WHERE deleted_at = 0)`)
	}
	if f.Application != 0 {
		add(`m.application_id = ?`, f.Application)
	}
	if f.Before > 0 {
		add(`m.id < ?`, f.Before)
	}
	if f.Since > 0 {
		add(`m.accepted_at >= ?`, f.Since)
	}
	if f.Until > 0 {
		add(`m.accepted_at < ?`, f.Until)
	}
	if f.Text != "" {
		pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(message.Clean(f.Text)) + "%"
		add(`(m.title `+d.like+` ? ESCAPE '\' OR m.body `+d.like+` ? ESCAPE '\')`, pattern, pattern)
	}
	if term := f.states(); term != "" {
		add(term)
	}
	return " WHERE " + strings.Join(terms, " AND "), args
}

// states returns the term for the states wanted. They are words of ours and stand in the text, so that the database sees
// when a partial index fits.
func (f Filter) states() string {
	var moving, final []string
	for _, s := range f.States {
		switch word := `'` + string(s) + `'`; {
		case !slices.Contains(message.States, s), s == message.StateBlocked:
		case s.Pending():
			moving = append(moving, word)
		default:
			final = append(final, word)
		}
	}
	var terms []string
	if len(final) > 0 {
		terms = append(terms, `o.state IN (`+strings.Join(final, ", ")+`)`)
	}
	if len(moving) > 0 {
		terms = append(terms, `(o.final_at = 0 AND o.state IN (`+strings.Join(moving, ", ")+`) AND r.blocked = '')`)
	}
	if slices.Contains(f.States, message.StateBlocked) {
		terms = append(terms, `(o.final_at = 0 AND r.blocked <> '')`)
	}
	if len(terms) == 0 {
		return ""
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// Troubled counts the messages that are ambiguous and those that are dead.
func (s *Store) Troubled(ctx context.Context) (ambiguous, dead int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN state = 'ambiguous' THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN state = 'dead' THEN 1 ELSE 0 END), 0)
		FROM outbox `+s.d.by("outbox_trouble")+` WHERE state IN ('ambiguous', 'dead') AND kind = 0`).Scan(&ambiguous, &dead)
	return ambiguous, dead, err
}
