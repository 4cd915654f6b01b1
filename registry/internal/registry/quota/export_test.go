package quota

import (
	"context"
	"time"
)

// SetPause makes refusals repeat counts that are older.
func (all *Quotas) SetPause(pause time.Duration) {
	for _, c := range all.list {
		c.pause = pause
	}
}

// Bytes returns what the i-th quota counts.
func (all *Quotas) Bytes(ctx context.Context, i int) (int64, error) {
	c := all.list[i]
	if err := c.doc.Refresh(ctx); err != nil {
		return 0, err
	}
	a, _ := c.doc.Last()
	return a.Bytes, nil
}
