package proxy

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
)

// Source is one upstream.
type Source struct {
	Name       string   // in logs, metrics, and messages
	Prefix     oci.Name // of its repositories here; "" takes all that no other prefix takes
	Namespaces []string // values of the ns parameter that mean it; Client's host does, too
	Library    bool     // names without a slash are below library/, as at Docker Hub
	Client     *upstream.Client
	TagTTL     time.Duration // how long a tag isn't checked again; 0 checks it each time
	TTL        time.Duration // after which what is unused leaves the cache; 0 = never
	Offline    bool          // never ask the upstream

	cache   *Registry
	metrics sourceMetrics

	mu     sync.Mutex
	paused time.Time // don't ask it before
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

// local returns the repository here for one of the upstream.
func (s *Source) local(name oci.Name) (oci.Name, error) {
	if s.Prefix != "" {
		name = s.Prefix + "/" + name
	}
	return oci.ParseName(string(name))
}

// remote returns the repository at the upstream for one here.
func (s *Source) remote(name oci.Name) oci.Name {
	if s.Prefix != "" {
		name = name[len(s.Prefix)+1:]
	}
	if s.Library && !strings.Contains(string(name), "/") {
		name = library + name
	}
	return name
}

// library is the prefix at Docker Hub of names without a slash.
const library = "library/"

// twin returns the other name here of a repository that has two, "" for all others.
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

// How long an upstream isn't asked again.
const (
	failurePause = 5 * time.Second // after a failure; stored content is served meanwhile
	limitPause   = time.Minute     // after a 429 without Retry-After
)

// pause returns the reason not to ask the upstream now, and for how long; "" if there is none.
func (s *Source) pause() (upstream.Reason, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.paused.Sub(s.cache.now()); left > 0 {
		return s.reason, left
	}
	return "", 0
}

// note records the outcome of a request.
func (s *Source) note(err error) {
	reason := upstream.ReasonOf(err)
	if err != nil && reason == "" {
		return // not the upstream's fault
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
	case upstream.Down, upstream.Slow, upstream.Fault, upstream.Login:
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
		switch {
		case reason == upstream.Login:
			log.Error("an upstream refuses the configured login; only cached images are served", zap.Error(err))
		case s.failed:
			log.Warn("an upstream fails; only cached images are served", zap.String("reason", string(reason)), zap.Error(err))
		default:
			log.Info("an upstream answers again")
		}
	}
}

// Check is a health check: it fails unless the upstream answers and accepts the login.
func (s *Source) Check(ctx context.Context) error {
	if s.Offline {
		return nil
	}
	err := s.Client.Ping(ctx)
	s.note(err)
	return err
}
