package store

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"slipway/relay/internal/post"
)

// entryColumn is a column of the outbox.
type entryColumn struct {
	name  string
	field []int // of [post.Entry]
}

// entryColumns are columns of the outbox. The statements of the hot paths are made of them.
type entryColumns []entryColumn

// The columns, as gorm maps the fields of an entry: all of them, and those that are written with a new entry, after a step, and with a
// changed content, as the tags of the fields list them.
var (
	allColumns    = columnsOf(func(*schema.Field) bool { return true })
	insertColumns = columnsOf(written("insert"))
	stepColumns   = columnsOf(written("step"))
	editColumns   = columnsOf(written("edit"))
)

func written(when string) func(*schema.Field) bool {
	return func(f *schema.Field) bool { return slices.Contains(strings.Split(f.Tag.Get("written"), ","), when) }
}

// columnsOf returns the columns of the fields for which want is true.
func columnsOf(want func(*schema.Field) bool) (all entryColumns) {
	s, err := schema.Parse(&post.Entry{}, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	for _, f := range s.Fields {
		if f.DBName != "" && want(f) {
			all = append(all, entryColumn{f.DBName, f.StructField.Index})
		}
	}
	return all
}

// without returns the columns except the one named.
func (c entryColumns) without(name string) entryColumns {
	return slices.DeleteFunc(slices.Clone(c), func(one entryColumn) bool { return one.name == name })
}

// list returns the names of the columns, each after prefix, for a statement.
func (c entryColumns) list(prefix string) string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = prefix + one.name
	}
	return strings.Join(names, ", ")
}

// assignments returns the SET clause of an UPDATE of the columns.
func (c entryColumns) assignments() string {
	return strings.ReplaceAll(c.list(""), ",", " = ?,") + " = ?"
}

// of returns pointers to the fields of an entry, with room for a few more values.
func (c entryColumns) of(e *post.Entry) []any {
	v := reflect.ValueOf(e).Elem()
	fields := make([]any, len(c), len(c)+8)
	for i, one := range c {
		fields[i] = v.FieldByIndex(one.field).Addr().Interface()
	}
	return fields
}

var (
	// contentText writes the content of an entry.
	contentText = `UPDATE outbox SET ` + editColumns.assignments() + ` WHERE id = ?`

	// outcomeText writes the result of a step of an entry that has a version.
	outcomeText = `UPDATE outbox SET ` + stepColumns.assignments() + ` WHERE id = ? AND state = ? AND attempts = ? AND revised_at = ?`
)

// Entry returns an entry and keeps others from changing it until the transaction ends. If there is none, [IsMissing] is true for the error.
func (tx *Tx) Entry(id int64) (e post.Entry, err error) {
	return e, tx.db.Clauses(forUpdate).Table("outbox").Where("id = ?", id).Take(&e).Error
}

// forUpdate keeps other relays from changing the rows of a query until the transaction ends. With SQLite there are none.
var forUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// FollowUps returns the entries that have a message as their target, in order.
func (tx *Tx) FollowUps(id int64) (all []post.Entry, err error) {
	return all, tx.db.Table("outbox").Where("target > 0 AND target = ?", id).Order("id").Find(&all).Error
}

// Removing reports whether the event of a message was or will be removed from its room.
func (tx *Tx) Removing(message int64) (yes bool, err error) {
	return yes, tx.db.Raw(`SELECT EXISTS (SELECT 1 FROM outbox WHERE target = ? AND target > 0 AND kind = ?)`, message, post.KindRedaction).Scan(&yes).Error
}

// Insert stores new entries, which get their IDs.
func (tx *Tx) Insert(entries ...*post.Entry) error {
	for _, e := range entries {
		tx.changed(e.Room, Added)
		tx.timed = tx.timed || e.NextAt != 0
	}
	return tx.sql.insertEntries(tx.ctx, entries...)
}

// SaveContent stores the content of an entry.
func (tx *Tx) SaveContent(e *post.Entry) error {
	tx.changed(e.Room, Altered)
	return tx.exec(contentText, append(editColumns.of(e), e.ID)...)
}

// Reschedule stores the content, the room and the time of a delayed entry.
func (tx *Tx) Reschedule(e *post.Entry) error {
	tx.timed = true
	return errors.Join(tx.SaveContent(e), tx.exec(`UPDATE outbox SET room = ?, queued_at = ?, next_at = ? WHERE id = ?`, e.Room, e.QueuedAt, e.NextAt, e.ID))
}

// Kinds in statements. They are part of the text, so that the database sees when a partial index fits.
var (
	isMessage   = ` = ` + number(post.KindMessage)
	isNoMessage = ` <> ` + number(post.KindMessage)
	isRedaction = ` = ` + number(post.KindRedaction)
	isNews      = among(post.KindEdit, post.KindReply)                   // what follows a message
	isRead      = among(post.KindMessage, post.KindEdit, post.KindReply) // what readers get: the condition of an index
)

func number(k post.Kind) string { return strconv.Itoa(int(k)) }

func among(kinds ...post.Kind) string {
	var all []string
	for _, k := range kinds {
		all = append(all, number(k))
	}
	return ` IN (` + strings.Join(all, `, `) + `)`
}

// Requeue queues a message again if its state is [post.State.Redeliverable]. It returns false if it isn't.
func (tx *Tx) Requeue(id, now int64) (bool, error) {
	e, err := tx.Entry(id)
	if err != nil {
		return false, err
	}
	followUps, err := tx.FollowUps(id)
	if err != nil {
		return false, err
	}
	queued, err := tx.Step(e, post.Redelivered{Txn: post.NewTxn(), FollowUps: followUps}, now)
	if err != nil || queued.State == e.State {
		return false, err
	}
	tx.changed(e.Room, Retry)
	return true, nil
}

// Withdraw withdraws a message and removes its attachments. What this relay is sending counts as attempted: its event is searched for and
// removed even if the relay is killed before the attempt ends.
func (tx *Tx) Withdraw(id, now int64) error {
	e, err := tx.Entry(id)
	if err != nil {
		return err
	}
	followUps, err := tx.FollowUps(id)
	if err != nil {
		return err
	}
	tx.markInFlight(&e)
	for i := range followUps {
		tx.markInFlight(&followUps[i])
	}
	if _, err := tx.Step(e, post.Withdrawn{FollowUps: followUps}, now); err != nil {
		return err
	}
	return errors.Join(tx.exec(`DELETE FROM attachments WHERE message_id > 0 AND message_id = ?`, id), tx.CloseAlert(id, now))
}

// markInFlight makes the first attempt at an entry count while it is under way.
func (tx *Tx) markInFlight(e *post.Entry) {
	if e.State.Pending() && e.FirstAttemptAt == 0 {
		e.FirstAttemptAt, e.Device = tx.w.feed.inFlight(e)
	}
}

// OldRooms returns the rooms with entries that were queued before cutoff.
func (s *Store) OldRooms(ctx context.Context, cutoff int64) (rooms []int64, err error) {
	return rooms, s.rows.WithContext(ctx).Raw(`SELECT DISTINCT room FROM outbox `+s.d.use("outbox_pending")+` WHERE `+expiring+` AND queued_at < ?`, cutoff).Scan(&rooms).Error
}

// expireBatch is how many entries one transaction gives up, so that accepting never waits long.
const expireBatch = 500

// Expire gives up a room's entries that were queued before cutoff, for a reason. It returns the number of entries and of messages.
func (s *Store) Expire(ctx context.Context, room, cutoff, now int64, reason string) (entries, dead int64, err error) {
	for {
		n, d, err := s.expireSome(ctx, room, cutoff, now, reason)
		entries, dead = entries+n, dead+d
		if err != nil || n < expireBatch {
			return entries, dead, err
		}
	}
}

func (s *Store) expireSome(ctx context.Context, room, cutoff, now int64, reason string) (entries, dead int64, err error) {
	err = s.Lead(ctx, func(tx *Tx) error {
		entries, dead = 0, 0
		var all []post.Entry
		err := tx.db.Table("outbox").Where("room = ? AND "+expiring+" AND queued_at < ?", room, cutoff).Order("id").Limit(expireBatch).Find(&all).Error
		if err != nil {
			return err
		}
		for _, e := range all {
			now, err := tx.Step(e, post.Expired{Reason: reason}, now)
			if err != nil {
				return err
			}
			if now.State.Pending() {
				continue
			}
			entries++
			if now.Kind == post.KindMessage && now.State.Dead() {
				dead++
			}
		}
		return nil
	})
	return entries, dead, err
}
