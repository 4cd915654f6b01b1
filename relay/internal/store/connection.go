package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

const (
	maxTries       = 5                      // of a transaction that fails because of others
	reconnectAfter = 500 * time.Millisecond // between attempts to connect, in which everything fails at once
)

// use prepares what is written over a connection.
func (w *writer) use(ctx context.Context, conn *sql.Conn) (err error) {
	if w.rows, err = w.d.open(conn); err != nil {
		return err
	}
	if err := w.d.prepare(ctx, conn); err != nil {
		return err
	}
	if w.sql, err = prepare(ctx, w.d, conn); err != nil {
		return err
	}
	w.conn = conn
	return nil
}

// insist writes a batch. A server may be away, or let the transaction fail because of another relay's.
func (w *writer) insist(b *batch) error {
	ctx := context.Background()
	if w.d.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.d.within)
		defer cancel()
	}
	var v verdict
	for range maxTries {
		if err := w.connect(ctx); err != nil {
			return err
		}
		if v = w.d.judge(w.conn, w.transact(ctx, b)); !v.again {
			break
		}
	}
	if v.lost {
		w.disconnect()
	}
	return v.err
}

// connect replaces a lost connection.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	if time.Since(w.tried) < reconnectAfter {
		return w.away
	}
	conn, err := w.pool.Conn(ctx)
	if err == nil {
		if err = w.use(ctx, conn); err != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	if err != nil {
		w.tried, w.away = time.Now(), fmt.Errorf("the database is away: %w", w.d.judge(nil, err).err)
		return w.away
	}
	return nil
}

// disconnect gives up a connection that is lost, with the transaction that it may be in.
func (w *writer) disconnect() {
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // it goes back into no pool
	_ = w.conn.Close()
	w.conn, w.rows, w.sql = nil, nil, nil
	w.tried = time.Time{}
}
