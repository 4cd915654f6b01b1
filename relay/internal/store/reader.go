package store

import (
	"context"
	"database/sql"
	"time"
)

// readWithin bounds each question to a server, which may be stopped or cut off: it then neither answers nor hangs up.
const readWithin = 10 * time.Second

// reader is the connections that read.
type reader struct {
	*sql.DB
	within time.Duration // 0: no server that could hang
}

// bound bounds a question, and what is read of its answer.
func (r reader) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.within)
}

// boundRows is bound where the answer outlives the call.
func (r reader) boundRows(ctx context.Context) context.Context {
	ctx, cancel := r.bound(ctx)
	if r.within > 0 {
		context.AfterFunc(ctx, cancel)
	}
	return ctx
}

// QueryContext is that of [sql.DB]. The rows have to be read in time too.
func (r reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.DB.QueryContext(r.boundRows(ctx), query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.DB.QueryRowContext(r.boundRows(ctx), query, args...)
}
