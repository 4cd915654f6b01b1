package quota

import "time"

// SetPause makes refusals repeat counts that are older.
func (all *Quotas) SetPause(pause time.Duration) {
	for _, c := range all.list {
		c.pause = pause
	}
}

// Bytes returns what the i-th quota counts.
func (all *Quotas) Bytes(i int) int64 {
	c := all.list[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.Bytes
}
