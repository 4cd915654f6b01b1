package store

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"

	"slipway/relay/internal/post"
)

// entryColumn is a column of the outbox.
type entryColumn struct {
	name  string
	field []int    // of [post.Entry]
	when  []string // it is written, as the field's tag lists it
}

// When columns are written.
const (
	onInsert = "insert"
	onStep   = "step"
	onEdit   = "edit"
)

// entryColumns are all columns of the outbox, as gorm maps the fields of an entry: the statements of the hot paths are made of them.
var entryColumns = func() (all []entryColumn) {
	s, err := schema.Parse(&post.Entry{}, &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(err)
	}
	for _, f := range s.Fields {
		if f.DBName != "" {
			all = append(all, entryColumn{f.DBName, f.StructField.Index, strings.Split(f.Tag.Get("written"), ",")})
		}
	}
	return all
}()

// columnsWritten returns the names of the columns that are written at a time.
func columnsWritten(when string) (names []string) {
	for _, c := range entryColumns {
		if slices.Contains(c.when, when) {
			names = append(names, c.name)
		}
	}
	return names
}

// valuesWritten returns pointers to what is written of an entry at a time.
func valuesWritten(e *post.Entry, when string) (all []any) {
	v := reflect.ValueOf(e).Elem()
	for _, c := range entryColumns {
		if slices.Contains(c.when, when) {
			all = append(all, v.FieldByIndex(c.field).Addr().Interface())
		}
	}
	return all
}

var (
	// contentText writes the content of an entry.
	contentText = `UPDATE outbox SET ` + strings.Join(columnsWritten(onEdit), " = ?, ") + ` = ? WHERE id = ?`

	// outcomeText writes what a step made of an entry that has a version.
	outcomeText = `UPDATE outbox SET ` + strings.Join(columnsWritten(onStep), " = ?, ") + ` = ? WHERE id = ? AND state = ? AND attempts = ? AND revised_at = ?`
)

// loadedColumns are the columns of a row o of the outbox, except those named.
func loadedColumns(except ...string) string {
	var names []string
	for _, c := range entryColumns {
		if !slices.Contains(except, c.name) {
			names = append(names, "o."+c.name)
		}
	}
	return strings.Join(names, ", ")
}

// into returns where loadedColumns are read into.
func into(e *post.Entry) (fields []any) {
	v := reflect.ValueOf(e).Elem()
	for _, c := range entryColumns {
		fields = append(fields, v.FieldByIndex(c.field).Addr().Interface())
	}
	return fields
}

// loadEntry returns an entry and keeps others from changing it until the transaction ends.
func (tx *Tx) loadEntry(id int64) (e post.Entry, err error) {
	return e, tx.db.Clauses(forUpdate).Table("outbox").Where("id = ?", id).Take(&e).Error
}

// forUpdate keeps other relays from changing the rows of a query until the transaction ends. With SQLite there are none.
var forUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// followUps returns the entries that have a message as their target.
func (tx *Tx) followUps(id int64) (all []post.Entry, err error) {
	return all, tx.db.Table("outbox").Where("target > 0 AND target = ?", id).Order("id").Find(&all).Error
}
