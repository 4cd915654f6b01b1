package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// dialect is what the databases say differently.
type dialect struct {
	name      string
	begin     string
	crossJoin string // keeps the tables in the order that is written, where that has to be asked for
	like      string // whatever the case
	forUpdate string // …of a query: keeps other relays from changing its rows until the transaction ends
	numbered  bool   // placeholders are $1, $2 …

	migrations embed.FS
	folder     string // of the migrations
	tables     string // query: how many tables there are, and whether schema_version is one of them
	foreign    string // the error about a database that is not ours

	gorm func(gorm.ConnPool) gorm.Dialector
}

// by names the index that a query must use. PostgreSQL finds it by itself.
func (d *dialect) by(index string) string {
	if d.numbered {
		return ""
	}
	return `INDEXED BY ` + index
}

// bind writes the placeholders of a statement as the database wants them. No text of ours has a question mark in a literal.
func (d *dialect) bind(text string) string {
	if !d.numbered || !strings.Contains(text, "?") {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

func (d *dialect) over(pool gorm.ConnPool) (*gorm.DB, error) {
	return gorm.Open(d.gorm(pool), &gorm.Config{SkipDefaultTransaction: true, DisableAutomaticPing: true, Logger: logger.Discard})
}

// IsTaken reports whether err is a violation of a unique index.
func IsTaken(err error) bool {
	var lite *driver.Error
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &lite):
		return lite.Code() == lib.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY
	case errors.As(err, &pg):
		return pg.Code == pgUniqueViolation
	}
	return false
}

// LimitPages bounds the size of the database, in pages, as a full disk would. It is for tests.
func (s *Store) LimitPages(ctx context.Context, n int) error {
	if s.d.numbered {
		return s.refuseRows(ctx, n == 1)
	}
	return s.Update(ctx, func(tx *Tx) error { return tx.exec(fmt.Sprintf("PRAGMA max_page_count = %d", n)) })
}

// query reads rows that no type of gorm's fits.
func (s *Store) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return s.read.QueryContext(ctx, s.d.bind(text), args...)
}
