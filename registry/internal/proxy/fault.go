package proxy

import (
	"errors"
	"fmt"

	"slipway/registry/internal/oci"
	"slipway/registry/internal/proxy/upstream"
)

func asError(err error) *upstream.Error {
	if e, ok := errors.AsType[*upstream.Error](err); ok {
		return e
	}
	return &upstream.Error{}
}

// fault returns the error for clients when an upstream fails. The cause becomes text for the
// log: a broken connection to the upstream must not look like one to the client.
func (s *Source) fault(err error, unknown oci.Code) error {
	reason := upstream.ReasonOf(err)
	if reason == "" {
		return err
	}
	e := &oci.Error{Err: errors.New(err.Error()), RetryAfter: asError(err).RetryAfter}
	switch reason {
	case upstream.NotFound:
		return &oci.Error{Code: unknown, Err: e.Err}
	case upstream.Denied:
		e.Code = oci.CodeDenied
	case upstream.Limited:
		e.Code = oci.CodeTooManyRequests
	default:
		e.Code, e.Err = oci.CodeUnavailable, fmt.Errorf("%w: %s", oci.ErrUpstream, err.Error())
	}
	e.Message = "the upstream registry " + s.Name + " " + plain(reason)
	return e
}

// plain describes a failure, after "the upstream registry NAME".
func plain(reason upstream.Reason) string {
	switch reason {
	case upstream.Down:
		return "cannot be reached"
	case upstream.Slow:
		return "doesn't answer in time"
	case upstream.Fault:
		return "has a fault"
	case upstream.Limited:
		return "limits the number of requests"
	case upstream.Login:
		return "refuses the login that is configured for it"
	case upstream.Realm:
		return "names a token server that proxy.upstreams[].trustedrealms doesn't list"
	case upstream.Denied:
		return "denies access"
	case upstream.NotFound:
		return "doesn't have it any more"
	case offline:
		return "is turned off: offline"
	default:
		return "gave an invalid answer"
	}
}

// warning is the Warning header of an answer from the cache that could not be checked.
func (s *Source) warning(reason upstream.Reason) string {
	if reason == offline {
		return fmt.Sprintf(`112 - "the upstream registry %s %s"`, s.Name, plain(reason))
	}
	return fmt.Sprintf(`111 - "the upstream registry %s %s; this answer is from the cache"`, s.Name, plain(reason))
}

// offline is the reason for an upstream that the configuration turns off.
const offline upstream.Reason = "offline"

// silent is nil if the upstream may be asked for what isn't stored. After a failure it may: it
// could have recovered.
func (s *Source) silent() error {
	if s.Offline {
		return &oci.Error{Code: oci.CodeUnavailable, Message: "the upstream registry " + s.Name + " " + plain(offline), Err: oci.ErrUpstream}
	}
	e := &upstream.Error{Err: errors.New("not asked again yet")}
	if e.Reason, e.RetryAfter = s.pause(); e.Reason == upstream.Login {
		e.RetryAfter = 0
	} else if e.Reason != upstream.Limited {
		return nil
	}
	return s.fault(e, "")
}
