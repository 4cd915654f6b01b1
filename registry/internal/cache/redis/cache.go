// Package redis lets the replicas of a registry share what they remember, in a Redis
// server, a cluster or a primary behind sentinels. It is a cache and no more: whatever
// Redis does, the registry works, only slower.
package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	client "github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Bounds of a cache.
const (
	// MaxValue is the size from which on a value is not kept.
	MaxValue = 256 << 10
	queued   = 64             // values that wait to be written; more are dropped
	lifetime = 24 * time.Hour // so that what nobody asks for does not stay forever
	rest     = time.Second    // after a failure, until Redis is asked again
)

// Cache keeps values in Redis. Each lookup is bounded in time, and after a failure
// Redis is left alone for a second, so one that hangs costs one wait in a second.
type Cache struct {
	client  client.UniversalClient
	bound   time.Duration // of a lookup, with connecting and waiting for a connection
	log     *zap.Logger
	metrics *Metrics

	away   atomic.Bool
	again  atomic.Int64 // when Redis may be asked again, in nanoseconds
	writes chan value
	done   sync.WaitGroup
	stop   context.CancelFunc
}

type value struct {
	key     string
	content []byte
}

// Metrics are those of distribution 3.
type Metrics struct {
	errors  prometheus.Counter
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "registry_storage_cache_errors_total", Help: "Lookups and writes that Redis did not answer or refused.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "registry_storage_cache_redis_seconds", Help: "Time that Redis takes.", Buckets: prometheus.ExponentialBuckets(0.000_1, 4, 8),
		}, []string{"operation"}),
	}
	r.MustRegister(m.errors, m.seconds)
	return m
}

// New makes a cache that asks the server of o. It does not connect: a server that is
// away may come later. metrics may be nil.
func New(o *client.UniversalOptions, log *zap.Logger, metrics *Metrics) *Cache {
	ctx, stop := context.WithCancel(context.Background())
	c := &Cache{
		client: client.NewUniversalClient(o), bound: o.DialTimeout + o.ReadTimeout + o.WriteTimeout,
		log: log, metrics: metrics, writes: make(chan value, queued), stop: stop,
	}
	c.done.Go(func() { c.write(ctx) })
	return c
}

// Close drops what is not written yet and closes the connections.
func (c *Cache) Close() error {
	c.stop()
	c.done.Wait()
	return c.client.Close()
}

// Get returns the value of key, which may be what anybody has written there.
func (c *Cache) Get(ctx context.Context, key string) (content []byte, ok bool) {
	err := c.call(ctx, "get", func(ctx context.Context) (err error) {
		content, err = c.client.Get(ctx, key).Bytes()
		return err
	})
	if err != nil || len(content) > MaxValue {
		return nil, false
	}
	return content, true
}

// Put keeps the value, some time later, unless it is too large or Redis cannot take
// it. The caller does not change content.
func (c *Cache) Put(key string, content []byte) {
	if len(content) > MaxValue || c.resting() {
		return
	}
	select {
	case c.writes <- value{key, content}:
	default:
	}
}

// write does what Put asks for until ctx ends.
func (c *Cache) write(ctx context.Context) {
	for {
		select {
		case v := <-c.writes:
			_ = c.call(ctx, "set", func(ctx context.Context) error { // logged and counted
				return c.client.Set(ctx, v.key, v.content, lifetime).Err()
			})
		case <-ctx.Done():
			return
		}
	}
}

// errResting means that Redis is not asked now.
var errResting = errors.New("the cache is not asked for a while after a failure")

func (c *Cache) resting() bool { return c.away.Load() && time.Now().UnixNano() < c.again.Load() }

// call calls f, unless Redis is away. Of those who ask when its rest is over, one
// tries and the others go on as before.
func (c *Cache) call(ctx context.Context, operation string, f func(context.Context) error) error {
	if c.away.Load() {
		now := time.Now()
		due := c.again.Load()
		if now.UnixNano() < due || !c.again.CompareAndSwap(due, now.Add(c.bound+rest).UnixNano()) {
			return errResting
		}
	}
	bounded, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	start := time.Now()
	err := f(bounded)
	if c.metrics != nil {
		c.metrics.seconds.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	}
	c.judge(ctx, err)
	return err
}

// judge describes what a call's outcome means for those that follow.
func (c *Cache) judge(ctx context.Context, err error) {
	var refusal client.Error
	switch {
	case err == nil || errors.Is(err, client.Nil):
		if c.away.Swap(false) {
			c.log.Info("Redis answers again")
		}
	case ctx.Err() != nil: // the client's, or the end of the cache
	case errors.As(err, &refusal) && !errors.Is(err, context.DeadlineExceeded): // it is there, and full, read-only or loading
		c.failed()
		c.log.Debug("Redis refuses a command", zap.Error(err))
	default:
		c.failed()
		c.again.Store(time.Now().Add(rest).UnixNano())
		if !c.away.Swap(true) {
			c.log.Warn("Redis does not answer; the registry works without its cache until it does", zap.Error(err))
		}
	}
}

func (c *Cache) failed() {
	if c.metrics != nil {
		c.metrics.errors.Inc()
	}
}
