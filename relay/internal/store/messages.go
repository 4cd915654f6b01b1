package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Record is a message with its outbox row, for showing.
type Record struct {
	Entry
	RestedAt int64
}

// Filter selects records, newest first.
type Filter struct {
	Owner       int64 // of the application; 0: any
	Application int64
	States      []State // where Queued and RetryWait mean: and the room is not parked
	Blocked     bool    // …or on its way and the room is parked. Neither States nor Blocked: any state
	Text        string
	Since       int64
	Until       int64
	Before      int64
	Limit       int
}

// Record returns a message by its id.
func (s *Store) Record(ctx context.Context, id int64) (Record, error) {
	all, err := s.records(ctx, byMessage+` WHERE m.id = ?`, id)
	if err != nil {
		return Record{}, err
	}
	if len(all) == 0 {
		return Record{}, sql.ErrNoRows
	}
	return all[0], nil
}

// Records returns the messages that f selects.
func (s *Store) Records(ctx context.Context, f Filter) ([]Record, error) {
	where, args := f.where()
	return s.records(ctx, f.from()+where+` ORDER BY m.id DESC LIMIT ?`, append(args, f.Limit)...)
}

const byMessage = ` FROM messages m CROSS JOIN outbox o ON o.id = m.id`

// from says where to begin. What is on its way or in trouble is few among many, and has an index of its own.
func (f Filter) from() string {
	moving, trouble := f.Blocked, false
	for _, s := range f.States {
		switch {
		case s < Sent:
			moving = true
		case s == Ambiguous || s == Dead:
			trouble = true
		default:
			return byMessage
		}
	}
	switch {
	case moving && !trouble:
		return ` FROM outbox o INDEXED BY outbox_pending CROSS JOIN messages m ON m.id = o.id AND o.state < 10`
	case trouble && !moving:
		return ` FROM outbox o INDEXED BY outbox_trouble CROSS JOIN messages m ON m.id = o.id AND o.state IN (11, 12)`
	}
	return byMessage
}

func (s *Store) records(ctx context.Context, tail string, args ...any) ([]Record, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+entryColumns+`, o.rested_at`+tail, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(r *Record) []any {
		return append(r.fields(), &r.RestedAt)
	})
}

// where spells the filter as SQL.
func (f Filter) where() (string, []any) {
	var terms []string
	var args []any
	add := func(term string, values ...any) {
		terms = append(terms, term)
		args = append(args, values...)
	}
	// The + keeps SQLite from sorting all messages of all these applications.
	if f.Owner != 0 {
		add(`+m.application_id IN (SELECT id FROM applications WHERE owner_id = ? AND deleted_at = 0)`, f.Owner)
	} else if f.Application == 0 {
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
		like := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(f.Text) + "%"
		add(`(m.title LIKE ? ESCAPE '\' OR m.body LIKE ? ESCAPE '\')`, like, like)
	}
	if term := f.states(); term != "" {
		add(term)
	}
	if len(terms) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(terms, " AND "), args
}

// states returns the term for the states wanted. They are numbers of ours and stand in the text, so that SQLite
// sees when a partial index fits.
func (f Filter) states() string {
	const parked = `(SELECT id FROM rooms WHERE parked <> '')`
	var moving, resting []State
	for _, s := range f.States {
		if s < Sent {
			moving = append(moving, s)
		} else {
			resting = append(resting, s)
		}
	}
	var terms []string
	if len(resting) > 0 {
		terms = append(terms, `o.state IN (`+list(resting)+`)`)
	}
	if len(moving) > 0 {
		terms = append(terms, `(o.state < 10 AND o.state IN (`+list(moving)+`) AND o.room NOT IN `+parked+`)`)
	}
	if f.Blocked {
		terms = append(terms, `(o.state < 10 AND o.room IN `+parked+`)`)
	}
	if len(terms) == 0 {
		return ""
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// Troubled counts the messages that are ambiguous and those that are dead.
func (s *Store) Troubled(ctx context.Context) (ambiguous, dead int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(sum(state = 11), 0), coalesce(sum(state = 12), 0)
		FROM outbox INDEXED BY outbox_trouble WHERE state IN (11, 12)`).Scan(&ambiguous, &dead)
	return ambiguous, dead, err
}

// Hours returns what happened since an hour, for one owner's applications or for all (0).
func (s *Store) Hours(ctx context.Context, owner, since int64) ([]Stat, error) {
	var stats []Stat
	q := s.Read(ctx).Select("hour, sum(accepted) AS accepted, sum(sent) AS sent, sum(dead) AS dead").Where("hour >= ?", since)
	if owner != 0 {
		q = q.Where("application_id IN (SELECT id FROM applications WHERE owner_id = ?)", owner)
	}
	return stats, q.Group("hour").Order("hour").Find(&stats).Error
}

// Requeue puts a message that is at rest in one of the states from on its way again, under a new transaction id if
// txn is not empty. It answers false if its state is another.
func (tx *Tx) Requeue(id, now int64, txn string, from ...State) (bool, error) {
	set := `state = 0, queued_at = ?, next_at = 0, rested_at = 0, error = '', code = ''`
	args := []any{now}
	if txn != "" {
		set += `, txn = ?, first_attempt_at = 0, device = '', event_type = '', wire = NULL, step = 0, event_id = ''`
		args = append(args, txn)
	}
	r := tx.Exec(`UPDATE outbox SET `+set+` WHERE id = ? AND state IN (`+list(from)+`)`, append(args, id)...)
	return r.RowsAffected == 1, r.Error
}

// Withdraw cancels a message whose event is not sent; it answers what the message's state was. One that was attempted
// without an answer keeps doubt as its error: nobody knows whether it arrived. When the event is sent, a row that redacts it is added to the outbox instead, unless there is one already.
func (tx *Tx) Withdraw(id, now int64, txn, doubt string) (was State, redacts bool, err error) {
	var row struct {
		State   State
		Step    int
		Room    int64
		EventID string
	}
	if err := tx.Raw(`SELECT state, step, room, event_id FROM outbox WHERE id = ?`, id).Scan(&row).Error; err != nil {
		return 0, false, err
	}
	switch {
	case row.State == Cancelled || row.State == Redacted:
		return row.State, false, nil
	case row.State < Sent && row.Step == 1: // its file is not wanted any more
		err = tx.Exec(`UPDATE outbox SET state = 10, rested_at = ?, next_at = 0, error = '', code = '' WHERE id = ?`, now, id).Error
	case row.State != Sent:
		return row.State, false, tx.Exec(`UPDATE outbox SET state = 13, rested_at = ?, wire = NULL, code = '',
			error = CASE WHEN first_attempt_at = 0 THEN '' ELSE ? END WHERE id = ?`, now, doubt, id).Error
	}
	if err != nil {
		return 0, false, err
	}
	r := tx.Exec(`INSERT INTO outbox (id, message_id, op, room, state, txn, queued_at, event_id)
		SELECT ?, ?, 1, ?, 0, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE message_id = ? AND op > 0 AND state < 10)`,
		tx.NextID(), id, row.Room, txn, now, row.EventID, id)
	return row.State, r.RowsAffected == 1, r.Error
}

// Settle notes of a message that was cancelled in doubt what was found in its room: its event, or nothing ("").
func (tx *Tx) Settle(id, now int64, eventID string) error {
	if eventID == "" {
		return tx.Exec(`UPDATE outbox SET error = '' WHERE id = ? AND state = 13`, id).Error
	}
	return tx.Exec(`UPDATE outbox SET state = 10, event_id = ?, error = '', rested_at = ? WHERE id = ? AND state = 13`, eventID, now, id).Error
}

func list(states []State) string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = strconv.Itoa(int(s))
	}
	return strings.Join(all, ", ")
}
