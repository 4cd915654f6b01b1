package registry

import (
	"context"
	"sync"
	"time"

	"slipway/registry/internal/driver"
)

// crew remembers that this process alone serves the storage, which takes many
// looks to find out. As long as the driver's token of the crew is the same,
// nobody has come.
type crew struct {
	mu    sync.Mutex
	token string
	since time.Time // when the token was first seen
	alone bool
}

// crewTick is longer than the steps of any file system's clock, FAT's two
// seconds among them: within a step, a token does not change.
const crewTick = 3 * time.Second

// sole asks the driver how many serve, unless it is known.
func (c *crew) sole(ctx context.Context, d driver.Driver) bool {
	token := d.Crew(ctx)
	if c.known(token) {
		return true
	}
	began := time.Now()
	n, err := d.Servers(ctx)
	alone := err == nil && n == 1
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token && token != "" && began.Sub(c.since) > crewTick {
		c.alone = alone
	}
	return alone
}

// known says whether nobody has come since this process was alone.
func (c *crew) known(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != token {
		c.token, c.since, c.alone = token, time.Now(), false
	}
	return c.alone
}
