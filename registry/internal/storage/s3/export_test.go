package s3

import "time"

// SetClock has the bucket believe, until the next answer, that the store's clock is ahead.
func (b *Bucket) SetClock(ahead time.Duration) { b.clock.Set(ahead) }
