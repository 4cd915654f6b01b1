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
	if w.rows, err = w.d.over(conn); err != nil {
		return err
	}
	if w.d.numbered {
		// Statements are prepared while the tables are small, and their plans must suit large ones. A scan that remains is priced
		// so high then that PostgreSQL would compile it, which takes longer than any statement here.
		for _, text := range []string{`SET enable_seqscan = off`, `SET jit = off`} {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return err
			}
		}
	}
	if w.sql, err = prepare(ctx, w.d, conn); err != nil {
		return err
	}
	w.conn = conn
	return nil
}

// insist writes a batch. A server may be away, or let the transaction fail because of another relay's.
func (w *writer) insist(b *batch) (err error) {
	w.feed.depth.begin(b)
	defer func() {
		if err != nil {
			w.feed.depth.abort()
		}
	}()
	if !w.d.numbered {
		return w.transact(context.Background(), b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), transactWithin)
	defer cancel()
	for range maxTries {
		if err = w.connect(ctx); err != nil {
			return err
		}
		if err = w.transact(ctx, b); err == nil || !again(err) {
			break
		}
	}
	if err != nil && lost(w.conn, err) {
		w.disconnect()
	}
	return explain(err)
}

// connect makes a lost connection anew.
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
		w.tried, w.away = time.Now(), fmt.Errorf("the database is away: %w", explain(err))
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
