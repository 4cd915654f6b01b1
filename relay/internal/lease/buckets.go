package lease

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"slipway/relay/internal/post"
)

// Count takes n tokens from a bucket that all relays share, or returns how long to wait for them. It holds at most burst and is refilled
// at a rate per minute. The relay must be one of several.
func (m *Member) Count(ctx context.Context, key string, n, perMinute, burst int) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	key = post.Clean(key)
	rate := float64(perMinute) / 60 // a second
	if n <= burst {
		var left float64
		err = m.o.DB.QueryRowContext(ctx, `INSERT INTO buckets AS b (key, tokens, at) VALUES ($1, $2::float8 - $4::float8, clock_timestamp())
			ON CONFLICT (key) DO UPDATE SET tokens = least($2, b.tokens + $3::float8 * extract(epoch FROM clock_timestamp() - b.at)::float8) - $4, at = clock_timestamp()
			WHERE least($2, b.tokens + $3::float8 * extract(epoch FROM clock_timestamp() - b.at)::float8) >= $4 RETURNING tokens`,
			key, float64(burst), rate, float64(n)).Scan(&left)
		if !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
	}
	tokens := float64(burst)
	err = m.o.DB.QueryRowContext(ctx, `SELECT least($2::float8, tokens + $3::float8 * extract(epoch FROM clock_timestamp() - at)::float8) FROM buckets WHERE key = $1`,
		key, tokens, rate).Scan(&tokens)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	missing := float64(n) - tokens
	if missing <= 0 {
		return 0, nil
	}
	return max(time.Millisecond, time.Duration(missing/rate*float64(time.Second))), nil
}

// GiveBack returns tokens to a bucket.
func (m *Member) GiveBack(ctx context.Context, key string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := m.o.DB.ExecContext(ctx, `UPDATE buckets SET tokens = tokens + $2 WHERE key = $1`, post.Clean(key), float64(n))
	return err
}
