// Package pushbits reads the database of a PushBits server.
package pushbits

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"slipway/relay/internal/fserror"
)

const (
	maxRows  = 100_000
	maxValue = 64 << 10 // bytes of a column; PushBits writes no longer value
)

// User is a row of PushBits' users.
type User struct {
	ID           int64
	Name         string
	PasswordHash string // $argon2id$…
	Admin        bool
	MatrixID     string
}

// Application is a row of PushBits' applications.
type Application struct {
	ID     int64
	UserID int64
	Name   string
	Token  string // in clear text, as PushBits stores it
	RoomID string
}

// Database is the content of a PushBits database, which holds no messages.
type Database struct {
	Users        []User
	Applications []Application
}

// Read reads PushBits' SQLite file without changing it. PushBits may be running.
func Read(ctx context.Context, path string) (*Database, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)&_pragma=trusted_schema(0)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	d := &Database{}
	if err := errors.Join(d.readUsers(ctx, db), d.readApplications(ctx, db)); err != nil {
		return nil, fmt.Errorf("%s is not a database of PushBits: %w", path, err)
	}
	return d, nil
}

// check returns a clear error for paths that SQLite would report badly.
func check(path string) error {
	if strings.Contains(path, "@tcp(") || strings.Contains(path, "://") || strings.Contains(path, "host=") {
		return errors.New("only PushBits' SQLite file can be read (database.connection of its config.yml, pushbits.db if not set), not its MySQL or PostgreSQL databases")
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no file %s: give PushBits' database, pushbits.db in the folder it runs in unless database.connection of its config.yml says otherwise", path)
	}
	if err != nil {
		return fserror.Explain(err, path)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fserror.Explain(err, path)
	}
	return f.Close()
}

func (d *Database) readUsers(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `SELECT id, coalesce(name, ''), cast(coalesce(password_hash, '') AS TEXT), coalesce(is_admin, 0) <> 0, coalesce(matrix_id, '') FROM users ORDER BY id LIMIT ?`,
		func(rows *sql.Rows) error {
			var u User
			err := rows.Scan(&u.ID, &u.Name, &u.PasswordHash, &u.Admin, &u.MatrixID)
			d.Users = append(d.Users, u)
			return errors.Join(err, short(u.Name, u.PasswordHash, u.MatrixID))
		})
}

func (d *Database) readApplications(ctx context.Context, db *sql.DB) error {
	return each(ctx, db, `SELECT id, coalesce(user_id, 0), coalesce(name, ''), coalesce(token, ''), coalesce(matrix_id, '') FROM applications ORDER BY id LIMIT ?`,
		func(rows *sql.Rows) error {
			var a Application
			err := rows.Scan(&a.ID, &a.UserID, &a.Name, &a.Token, &a.RoomID)
			d.Applications = append(d.Applications, a)
			return errors.Join(err, short(a.Name, a.Token, a.RoomID))
		})
}

func short(values ...string) error {
	for _, v := range values {
		if len(v) > maxValue {
			return fmt.Errorf("a value has %d bytes", len(v))
		}
	}
	return nil
}

func each(ctx context.Context, db *sql.DB, query string, row func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query, maxRows+1)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // what there is to know, Err knows
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return fmt.Errorf("a table has more than %d rows", maxRows)
		}
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
