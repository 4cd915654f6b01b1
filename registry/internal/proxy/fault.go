package proxy

import (
	"errors"
	"fmt"
	"time"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/registry"
	"slipway/registry/internal/upstream"
)

func asError(err error) *upstream.Error {
	var e *upstream.Error
	if errors.As(err, &e) {
		return e
	}
	return &upstream.Error{}
}

// fault is the error for clients when an upstream fails. The cause becomes text for the
// log, because an aborted connection to the upstream must not be taken for one to the client.
func (s *Source) fault(err error, unknown oci.Code) error {
	reason := upstream.ReasonOf(err)
	if reason == "" {
		return err
	}
	e := &oci.Error{Err: errors.New(err.Error()), RetryAfter: asError(err).RetryAfter}
	switch reason {
	case upstream.NotFound:
		return &oci.Error{Code: unknown, Err: e.Err}
	case upstream.Login:
		e.Code = oci.CodeUnauthorized
	case upstream.Denied:
		e.Code = oci.CodeDenied
	case upstream.Limited:
		e.Code = oci.CodeTooManyRequests
	default:
		e.Code, e.Err = oci.CodeUnavailable, fmt.Errorf("%w: %s", registry.ErrUpstream, err.Error())
	}
	e.Message = "the upstream registry " + s.Name + " " + plain(reason)
	return e
}

// plain says what an upstream does that fails.
func plain(reason upstream.Reason) string {
	switch reason {
	case upstream.Down:
		return "cannot be reached"
	case upstream.Slow:
		return "does not answer in time"
	case upstream.Fault:
		return "has a fault"
	case upstream.Limited:
		return "limits the number of requests"
	case upstream.Login:
		return "asks for another login"
	case upstream.Denied:
		return "denies access"
	case upstream.NotFound:
		return "does not have it any more"
	case offline:
		return "is not asked: offline"
	default:
		return "gave an invalid answer"
	}
}

// warning is the header of an answer out of the cache that could not be checked.
func (s *Source) warning(reason upstream.Reason) string {
	if reason == offline {
		return fmt.Sprintf(`112 - "the upstream registry %s %s"`, s.Name, plain(reason))
	}
	return fmt.Sprintf(`111 - "the upstream registry %s %s; this is what the cache holds"`, s.Name, plain(reason))
}

// offline is the reason of an upstream that the configuration turns off.
const offline upstream.Reason = "offline"

// refusal is the error while the upstream is not asked.
func (s *Source) refusal(reason upstream.Reason, left time.Duration) error {
	if reason == offline {
		return &oci.Error{Code: oci.CodeUnavailable, Message: "the upstream registry " + s.Name + " " + plain(reason), Err: registry.ErrUpstream}
	}
	return s.fault(&upstream.Error{Reason: reason, RetryAfter: left, Err: errors.New("not asked again yet")}, "")
}

// silent says whether the upstream is not to be asked for what there is no copy of. After
// a failure it is: it may have recovered.
func (s *Source) silent() error {
	if s.Offline {
		return s.refusal(offline, 0)
	}
	if reason, left := s.pause(); reason == upstream.Limited {
		return s.refusal(reason, left)
	}
	return nil
}
