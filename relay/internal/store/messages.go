package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/post"
)

// Filter selects messages, newest first. Zero fields do not restrict.
type Filter struct {
	ApplicationID int64
	States        []post.State // one that is [post.State.Blockable] is blocked, and in no other state, while its room is
	Text          string       // in title or body, case-insensitive
	Since, Until  time.Time
	Before        int64 // only ids below
	Limit         int
	Bytes         int // of text, beyond which no other message follows; 0 for any
}

// Message returns a message by its ID. If there is none, [IsMissing] is true for the error.
func (s *Store) Message(ctx context.Context, id int64) (m post.View, err error) {
	err = s.views(ctx, func(found post.View) bool { m = found; return true }, "", ` WHERE o.kind`+isMessage+` AND o.id = ?`, id)
	if err == nil && m.ID == 0 {
		err = sql.ErrNoRows
	}
	return m, err
}

// Messages returns the messages that f selects, of an owner's applications or, at 0, of all. more reports that others follow.
func (s *Store) Messages(ctx context.Context, owner int64, f Filter) (all []post.View, more bool, err error) {
	where, args := f.where(owner)
	index, _ := f.few()
	return s.viewPage(ctx, f.Limit, f.Bytes, index, where+` ORDER BY o.id DESC LIMIT ?`, args)
}

// viewPage returns the first views that the rest of a query selects, which ends with a limit: at most limit, and no other once their text takes
// as many bytes, unless that is 0.
func (s *Store) viewPage(ctx context.Context, limit, bytes int, index, tail string, args []any) (all []post.View, more bool, err error) {
	size := 0
	err = s.views(ctx, func(m post.View) bool {
		if more = len(all) == limit || bytes > 0 && size >= bytes; more {
			return false
		}
		size += len(m.Title) + len(m.Body) + len(m.Extras)
		all = append(all, m)
		return true
	}, index, tail, append(args, limit+1)...)
	return all, more, err
}

const around = ` JOIN rooms r ON r.id = o.room LEFT JOIN applications a ON a.id = o.application_id AND a.deleted_at = 0`

// few returns the index to begin with, and its term, if f selects what is on its way or in trouble: few among many.
func (f Filter) few() (index, term string) {
	moving, trouble := false, false
	for _, s := range f.States {
		switch {
		case s.Pending():
			moving = true
		case s.Troubled():
			trouble = true
		default:
			return "", ""
		}
	}
	switch {
	case moving && !trouble:
		return "outbox_pending", `o.final_at = 0`
	case trouble && !moving:
		return "outbox_trouble", `o.state IN ` + inTrouble
	}
	return "", ""
}

// removing is true if a removal follows the message of a row o of the outbox.
var removing = `EXISTS (SELECT 1 FROM outbox f WHERE f.target = o.id AND f.target > 0 AND f.kind` + isRedaction + ` AND f.final_at = 0)`

// viewColumns are the columns of a view: all but the event's bytes, which only the delivery needs.
var viewColumns = allColumns.without("wire")

var selectViews = `SELECT ` + viewColumns.list("o.") + `, coalesce(a.name, ''), coalesce(a.owner_id, 0), r.address, r.room_id, r.blocked, ` + removing + ` FROM outbox o `

// views calls each with each view that the rest of a query selects, by an index if one is named, until each returns false.
func (s *Store) views(ctx context.Context, each func(post.View) bool, index, tail string, args ...any) error {
	rows, err := s.query(ctx, selectViews+s.d.use(index)+around+tail, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var m post.View
		var blocked string
		if err := rows.Scan(append(viewColumns.of(&m.Entry), &m.ApplicationName, &m.OwnerID, &m.Address, &m.RoomID, &blocked, &m.Removing)...); err != nil {
			return err
		}
		if (Room{Address: m.Address, RoomID: m.RoomID}).ToMake() {
			m.Address = ""
		}
		if m.State.Blockable() && blocked != "" {
			m.State, m.Error = post.StateBlocked, blocked
		}
		if !each(m) {
			break
		}
	}
	return rows.Err()
}

// where spells the filter as SQL.
func (f Filter) where(owner int64) (string, []any) {
	var c conditions
	c.add(`o.kind` + isRead + ` AND o.kind` + isMessage) // the first is the condition of an index
	if _, term := f.few(); term != "" {
		c.add(term)
	}
	// The + keeps SQLite from sorting all messages of all these applications.
	switch {
	case owner != 0:
		c.add(`+o.application_id IN (SELECT id FROM applications WHERE owner_id = ? AND deleted_at = 0)`, owner)
	case f.ApplicationID == 0:
		c.add(`+o.application_id IN (SELECT id FROM applications WHERE deleted_at = 0)`)
	}
	if f.ApplicationID != 0 {
		c.add(`o.application_id = ?`, f.ApplicationID)
	}
	if f.Before > 0 {
		c.add(`o.id < ?`, f.Before)
	}
	if !f.Since.IsZero() {
		c.add(`o.accepted_at >= ?`, post.Millis(f.Since))
	}
	if !f.Until.IsZero() {
		c.add(`o.accepted_at < ?`, post.Millis(f.Until))
	}
	if f.Text != "" {
		pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(post.Clean(f.Text)) + "%"
		c.add(`(lower(o.title) LIKE lower(?) ESCAPE '\' OR lower(o.body) LIKE lower(?) ESCAPE '\')`, pattern, pattern)
	}
	if term := f.states(); term != "" {
		c.add(term)
	}
	return c.where()
}

// conditions are terms of a WHERE clause, all of which must hold, with their values.
type conditions struct {
	terms []string
	args  []any
}

func (c *conditions) add(term string, values ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, values...)
}

func (c *conditions) where() (string, []any) {
	return ` WHERE ` + strings.Join(c.terms, ` AND `), c.args
}

// states returns the term for the states wanted. They are words of ours and stand in the text, so that the database sees
// when a partial index fits.
func (f Filter) states() string {
	var blockable, others []string
	for _, s := range f.States {
		switch word := `'` + string(s) + `'`; {
		case !slices.Contains(post.States, s), s == post.StateBlocked:
		case s.Blockable():
			blockable = append(blockable, word)
		default:
			others = append(others, word)
		}
	}
	var terms []string
	if len(others) > 0 {
		terms = append(terms, `o.state IN (`+strings.Join(others, ", ")+`)`)
	}
	if len(blockable) > 0 {
		terms = append(terms, `(o.final_at = 0 AND o.state IN (`+strings.Join(blockable, ", ")+`) AND r.blocked = '')`)
	}
	if slices.Contains(f.States, post.StateBlocked) {
		terms = append(terms, `(`+pendingIf(post.State.Blockable, "o.")+` AND r.blocked <> '')`)
	}
	if len(terms) == 0 {
		return ""
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// Troubled counts the messages that are ambiguous and those that are dead.
func (s *Store) Troubled(ctx context.Context) (ambiguous, dead int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN state = `+isAmbiguous+` THEN 1 ELSE 0 END), 0), coalesce(sum(CASE WHEN state = `+isDead+` THEN 1 ELSE 0 END), 0)
		FROM outbox `+s.d.use("outbox_trouble")+` WHERE state IN `+inTrouble+` AND kind`+isMessage).Scan(&ambiguous, &dead)
	return ambiguous, dead, err
}
