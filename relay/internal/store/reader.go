package store

import (
	"context"
	"database/sql"
)

// reader is the read-only connection pool. A query that has to wait for a connection is bounded, as its connection isn't: a server
// that is stopped keeps all of them busy.
type reader struct {
	*sql.DB
}

// bound bounds a query if no connection is free.
func (r reader) bound(ctx context.Context) context.Context {
	if s := r.Stats(); s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// QueryContext is that of [sql.DB].
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.DB.QueryContext(r.bound(ctx), query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.DB.QueryRowContext(r.bound(ctx), query, args...)
}
