package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"slipway/shared/fileerror"
)

const (
	maxPushBitsRows  = 100_000
	maxPushBitsValue = 64 << 10 // bytes of a column; PushBits writes no longer value
)

// PushBitsUser is a row of PushBits' users.
type PushBitsUser struct {
	ID           int64
	Name         string
	PasswordHash string // $argon2id$…
	Admin        bool
	MatrixID     string
}

// PushBitsApplication is a row of PushBits' applications.
type PushBitsApplication struct {
	ID     int64
	UserID int64
	Name   string
	Token  string // in clear text, as PushBits stores it
	RoomID string
}

// PushBits is the content of a PushBits database, which holds no messages.
type PushBits struct {
	Users        []PushBitsUser
	Applications []PushBitsApplication
}

// ReadPushBits reads PushBits' SQLite file without changing it. PushBits may be running.
func ReadPushBits(ctx context.Context, path string) (*PushBits, error) {
	if err := checkPushBits(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)&_pragma=trusted_schema(0)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	d := &PushBits{}
	if err := errors.Join(d.readUsers(ctx, db), d.readApplications(ctx, db)); err != nil {
		return nil, fmt.Errorf("%s is not a database of PushBits: %w", path, err)
	}
	return d, nil
}

// checkPushBits returns a clear error for paths that SQLite would report badly.
func checkPushBits(path string) error {
	if strings.Contains(path, "@tcp(") || strings.Contains(path, "://") || strings.Contains(path, "host=") {
		return errors.New("only PushBits' SQLite file can be read (database.connection of its config.yml, pushbits.db if not set), not its MySQL or PostgreSQL databases")
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no file %s: give PushBits' database, pushbits.db in the folder it runs in unless database.connection of its config.yml says otherwise", path)
	}
	if err != nil {
		return fileerror.Explain(path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fileerror.Explain(path, err)
	}
	return f.Close()
}

func (d *PushBits) readUsers(ctx context.Context, db *sql.DB) error {
	return eachPushBits(ctx, db, `SELECT id, coalesce(name, ''), cast(coalesce(password_hash, '') AS TEXT), coalesce(is_admin, 0) <> 0, coalesce(matrix_id, '') FROM users ORDER BY id LIMIT ?`,
		func(rows *sql.Rows) error {
			var u PushBitsUser
			err := rows.Scan(&u.ID, &u.Name, &u.PasswordHash, &u.Admin, &u.MatrixID)
			d.Users = append(d.Users, u)
			return errors.Join(err, shortPushBits(u.Name, u.PasswordHash, u.MatrixID))
		})
}

func (d *PushBits) readApplications(ctx context.Context, db *sql.DB) error {
	return eachPushBits(ctx, db, `SELECT id, coalesce(user_id, 0), coalesce(name, ''), coalesce(token, ''), coalesce(matrix_id, '') FROM applications ORDER BY id LIMIT ?`,
		func(rows *sql.Rows) error {
			var a PushBitsApplication
			err := rows.Scan(&a.ID, &a.UserID, &a.Name, &a.Token, &a.RoomID)
			d.Applications = append(d.Applications, a)
			return errors.Join(err, shortPushBits(a.Name, a.Token, a.RoomID))
		})
}

func shortPushBits(values ...string) error {
	for _, v := range values {
		if len(v) > maxPushBitsValue {
			return fmt.Errorf("a value has %d bytes", len(v))
		}
	}
	return nil
}

func eachPushBits(ctx context.Context, db *sql.DB, query string, row func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query, maxPushBitsRows+1)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // what there is to know, Err knows
	for n := 0; rows.Next(); n++ {
		if n == maxPushBitsRows {
			return fmt.Errorf("a table has more than %d rows", maxPushBitsRows)
		}
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
