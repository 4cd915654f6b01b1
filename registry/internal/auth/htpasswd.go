package auth

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"go.uber.org/zap"

	"slipway/registry/internal/oci"
)

const (
	// DefaultRemember is how long a verified password is taken without
	// comparing it again, counted from its last use.
	DefaultRemember = time.Minute

	retryAfter = 5 * time.Second
)

// HtpasswdOptions configures NewHtpasswd.
type HtpasswdOptions struct {
	Realm string
	Path  string
	Log   *zap.Logger

	// AnonymousPull grants Pull to requests without credentials. Everything
	// else is still challenged, the version check too: that is where a client
	// finds out that it can log in, and where `docker login` tries a password.
	// Docker's engine cannot pull anonymously from a registry whose version
	// check asks for Basic credentials; it needs a token server. containerd,
	// podman, skopeo and crane can.
	AnonymousPull bool

	// Remember is how long after its last use the outcome of a comparison is
	// taken without comparing again; 0 is DefaultRemember, negative is never. A
	// changed or removed line of the file ends it at once.
	Remember time.Duration
}

// Htpasswd authenticates with the users of an htpasswd file; every user may do
// everything. A change of the file counts within about a second. While the file
// is missing or unreadable every login is refused as temporarily unavailable:
// an old copy in memory could let in somebody whose line was removed.
type Htpasswd struct {
	file      *passwordFile
	comparer  *comparer
	brake     *brake
	anonymous bool
	challenge string
	seed      maphash.Seed
}

// NewHtpasswd reads the file. A missing one is an error that names the command
// which makes it.
func NewHtpasswd(o HtpasswdOptions) (*Htpasswd, error) {
	file, err := openPasswordFile(o.Path, o.Log)
	if err != nil {
		return nil, err
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	return &Htpasswd{
		file:      file,
		comparer:  newComparer(o.Remember),
		brake:     newBrake(),
		anonymous: o.AnonymousPull,
		challenge: "Basic realm=" + strconv.Quote(o.Realm),
		seed:      maphash.MakeSeed(),
	}, nil
}

// Reload reads the password file again, if it has changed.
func (h *Htpasswd) Reload() {
	h.file.mu.Lock()
	defer h.file.mu.Unlock()
	h.file.look()
}

// Close waits for the comparisons in progress.
func (h *Htpasswd) Close() { h.comparer.ended.Wait() }

// Authorize decides on a request. The error is a *Refusal, or the context's when
// the client hung up while it waited.
func (h *Htpasswd) Authorize(r *http.Request, a Access) (Grant, error) {
	var room [192]byte
	var c credentials
	if values := r.Header["Authorization"]; len(values) > 0 {
		var ok bool
		if c, ok = parseBasic(values[0], room[:]); !ok {
			return Grant{}, h.unauthorized(a, BadHeader, "")
		}
	}
	if c.none() {
		if h.anonymous && a.Action == Pull {
			return Grant{}, nil
		}
		return Grant{}, h.unauthorized(a, NoCredentials, "")
	}
	return h.login(r, a, c)
}

func (h *Htpasswd) login(r *http.Request, a Access, c credentials) (Grant, error) {
	users := h.file.users()
	if users == nil {
		return Grant{}, later(oci.CodeUnavailable, NoPasswordFile, c, "logins are not possible at the moment")
	}
	hash, known := users.hash(c.user, h.seed)
	matches, fresh, err := h.comparer.compare(r.Context(), c, r.RemoteAddr, hash)
	switch {
	case errors.Is(err, errBusy):
		return Grant{}, later(oci.CodeTooManyRequests, TooManyLogins, c, "too many logins at once")
	case err != nil:
		return Grant{}, fmt.Errorf("wait for the comparison of a password: %w", err)
	case !matches && fresh:
		wait(r.Context(), h.brake.failed(host(r.RemoteAddr), time.Now()))
	}
	switch {
	case !known:
		return Grant{}, h.unauthorized(a, UnknownUser, string(c.user))
	case !matches:
		return Grant{}, h.unauthorized(a, WrongPassword, string(c.user))
	}
	return Grant{User: string(c.user), Fresh: fresh}, nil
}

// host is the address without its port, of IPv6 the network that one customer has.
// Behind a reverse proxy that is not in http.trustedproxies all clients share one.
func host(addr string) string {
	a, err := netip.ParseAddrPort(addr)
	ip := a.Addr()
	if err != nil {
		if ip, err = netip.ParseAddr(addr); err != nil {
			return addr
		}
	}
	if ip = ip.Unmap(); ip.Is6() {
		return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
	}
	return ip.String()
}

func (h *Htpasswd) unauthorized(a Access, reason Reason, user string) *Refusal {
	return &Refusal{
		Reason:    reason,
		User:      user,
		Challenge: h.challenge,
		Err:       oci.NewError(oci.CodeUnauthorized, a.records()),
	}
}

func later(code oci.Code, reason Reason, c credentials, detail string) *Refusal {
	return &Refusal{Reason: reason, User: string(c.user), RetryAfter: retryAfter, Err: oci.NewError(code, detail)}
}
