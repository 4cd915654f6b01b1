package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/upstream"
)

// Source is one upstream.
type Source struct {
	Name       string   // in logs, metrics and messages
	Prefix     oci.Name // of its repositories here; "" takes all that nobody else takes
	Namespaces []string // that it stands for in the ns parameter of requests
	Library    bool     // names without a slash lie below library/, as at Docker Hub
	Client     *upstream.Client
	TagTTL     time.Duration // for how long a tag is not checked again; 0 checks it each time
	TTL        time.Duration // after which something unused leaves the cache; 0 = never
	Offline    bool          // the upstream is never asked
	PerHour    int           // manifests fetched per hour at most; 0 = no limit

	cache   *Cache
	metrics *sourceMetrics
	budget  *budget

	mu     sync.Mutex
	paused time.Time // until when it is not asked
	reason upstream.Reason
	failed bool
}

func (s *Source) has(name oci.Name) bool {
	if s.Prefix == "" {
		return true
	}
	rest, ok := strings.CutPrefix(string(name), string(s.Prefix))
	return ok && strings.HasPrefix(rest, "/") && len(rest) > 1
}

func (s *Source) standsFor(namespace string) bool { return slices.Contains(s.Namespaces, namespace) }

// local is the repository here of one of the upstream.
func (s *Source) local(name oci.Name) (oci.Name, error) {
	if s.Prefix != "" {
		name = s.Prefix + "/" + name
	}
	return oci.ParseName(string(name))
}

// remote is the repository at the upstream of one here.
func (s *Source) remote(name oci.Name) oci.Name {
	if s.Prefix != "" {
		name = name[len(s.Prefix)+1:]
	}
	if s.Library && !strings.Contains(string(name), "/") {
		name = library + name
	}
	return name
}

// library is where Docker Hub has what is written without a slash.
const library = "library/"

// twin is the other name here of a repository that the upstream has under two; "" for
// all others.
func (s *Source) twin(name oci.Name) oci.Name {
	prefix := name[:0]
	if s.Prefix != "" {
		prefix = name[:len(s.Prefix)+1]
	}
	rest := string(name[len(prefix):])
	bare, written := strings.CutPrefix(rest, library)
	switch {
	case !s.Library || strings.Contains(bare, "/"):
		return ""
	case written:
		return prefix + oci.Name(bare)
	default:
		return prefix + library + oci.Name(bare)
	}
}

// How long an upstream is not asked.
const (
	failurePause = 5 * time.Second // after a failure; copies are served meanwhile
	limitPause   = time.Minute     // after a 429 that does not say
)

// pause is why the upstream is not to be asked now, and for how long; "" if it may be.
func (s *Source) pause() (upstream.Reason, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.paused.Sub(s.cache.now()); left > 0 {
		return s.reason, left
	}
	return "", 0
}

// note learns from the outcome of a request.
func (s *Source) note(err error) {
	reason := upstream.ReasonOf(err)
	if err != nil && reason == "" {
		return // not of the upstream
	}
	s.metrics.note(reason)
	now := s.cache.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.failed
	switch reason {
	case upstream.Limited:
		s.paused, s.reason = now.Add(limitPause), reason
		if e := asError(err); e.RetryAfter > 0 {
			s.paused = now.Add(e.RetryAfter)
		}
		s.failed = true
	case upstream.Down, upstream.Slow, upstream.Fault:
		if s.reason != upstream.Limited || !now.Before(s.paused) {
			s.paused, s.reason = now.Add(failurePause), reason
		}
		s.failed = true
	default: // it answers
		if s.reason != upstream.Limited {
			s.paused = time.Time{}
		}
		s.failed = false
	}
	if s.failed != failed {
		log := s.cache.opts.Log.With(zap.String("upstream", s.Name))
		if s.failed {
			log.Warn("an upstream fails; what is cached is served", zap.String("reason", string(reason)), zap.Error(err))
		} else {
			log.Info("an upstream answers again")
		}
	}
}

// Check is a health check: whether the upstream answers.
func (s *Source) Check(ctx context.Context) error {
	if s.Offline {
		return nil
	}
	err := s.Client.Ping(ctx)
	s.note(err)
	return err
}

// budget is how many manifests may still be fetched: a bucket that fills in an hour.
type budget struct {
	mu   sync.Mutex
	max  float64
	left float64
	at   time.Time
	now  func() time.Time
}

func newBudget(perHour int, now func() time.Time) *budget {
	if perHour <= 0 {
		return nil
	}
	return &budget{max: float64(perHour), left: float64(perHour), at: now(), now: now}
}

// take is 0 if one more may be fetched, else how long it takes until one may.
func (b *budget) take() time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	rate := b.max / time.Hour.Seconds()
	b.left = min(b.max, b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
	if b.left >= 1 {
		b.left--
		return 0
	}
	return time.Duration((1 - b.left) / rate * float64(time.Second))
}
