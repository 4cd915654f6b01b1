package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// scope is the range from which an address can be reached. The values are bits of a set.
type scope uint32

const (
	public scope = 1 << iota
	private
	linkLocal
	loopback
)

func (s scope) String() string {
	switch s {
	case private:
		return "private"
	case linkLocal:
		return "link-local"
	case loopback:
		return "loopback"
	default:
		return "public"
	}
}

// Ranges that netip doesn't count as private although routers on the Internet drop them:
// carrier-grade NAT and protocol assignments, where clouds have metadata services.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
}

// nat64 is the prefix under which IPv6-only networks reach IPv4 addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func scopeOf(a netip.Addr) scope {
	a = a.Unmap().WithZone("")
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case a.IsLoopback() || a.IsUnspecified():
		return loopback
	case a.IsLinkLocalUnicast() || a.IsMulticast():
		return linkLocal
	case a.IsPrivate():
		return private
	}
	for _, p := range privateRanges {
		if p.Contains(a) {
			return private
		}
	}
	return public
}

// guard refuses connections to hosts that only the upstream named, by a redirect or a realm,
// if they have an address that isn't public. Otherwise an upstream could have the registry
// send requests into networks that the upstream itself can't reach. Checking the address when
// it is dialed covers names that resolve to another address each time.
type guard struct {
	dialer  net.Dialer
	own     string   // host of the upstream
	trusted []string // further hosts that the operator named
	off     bool
	seen    atomic.Uint32 // scopes of the upstream's own connections
	proxies sync.Map      // host:port of HTTP proxies from the environment
}

// proxy is http.ProxyFromEnvironment, and remembers the proxies: they may be dialed anywhere.
func (g *guard) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if u != nil {
		g.proxies.Store(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), proxyPorts[u.Scheme])), true)
	}
	return u, err
}

// proxyPorts are those that http.Transport dials where the URL of a proxy has none.
var proxyPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// dial connects to a host and port, unless the guard refuses its address.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, ok := g.proxies.Load(address); ok {
		return g.dialer.DialContext(ctx, network, address)
	}
	if strings.EqualFold(host, g.own) {
		conn, err := g.dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &ownConn{conn, sync.OnceFunc(func() {
			if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
				g.seen.Or(uint32(scopeOf(to.Addr())))
			}
		})}, nil
	}
	d := g.dialer
	if !g.trusts(host) {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return g.check(to.Addr())
		}
	}
	return d.DialContext(ctx, network, address)
}

// ownConn is a connection to the upstream's host.
type ownConn struct {
	net.Conn
	seen func() // notes the address
}

// watch returns the context of a request that notes the addresses of the upstream's connections, after TLS if there is any: the
// upstream's name could resolve to an address at which it isn't.
func watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		conn := got.Conn
		if encrypted, ok := conn.(*tls.Conn); ok {
			conn = encrypted.NetConn()
		}
		if own, ok := conn.(*ownConn); ok {
			own.seen()
		}
	}})
}

func (g *guard) trusts(host string) bool {
	if g.off || strings.EqualFold(host, g.own) {
		return true
	}
	for _, t := range g.trusted {
		if h, _, err := net.SplitHostPort(t); err == nil {
			t = h
		}
		if strings.EqualFold(t, host) {
			return true
		}
	}
	return false
}

// check is nil if a host that the upstream named may have the address.
func (g *guard) check(a netip.Addr) error {
	s := scopeOf(a)
	if s == public || g.seen.Load()&uint32(s) != 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is a %s address and %s has none; privateredirects allows it", errRefusedAddress, a, s, g.own)
}

var errRefusedAddress = errors.New("the upstream leads to an address that is not public")

// checkURL refuses literal addresses, which behind an HTTP proxy this process doesn't dial.
func (g *guard) checkURL(u *url.URL) error {
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil || g.trusts(u.Hostname()) {
		return nil //nolint:nilerr // a name is checked when it is dialed
	}
	return g.check(a)
}
