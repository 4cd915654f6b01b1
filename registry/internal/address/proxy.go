package address

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are those whose headers about clients are believed.
type Proxies struct {
	Networks []netip.Prefix
	Unix     bool // peers on a unix socket too
}

// Client is the address of the client: the peer's or, if that is a trusted proxy,
// the last address before the trusted ones in X-Forwarded-For; without that header
// in Forwarded, without both the one in X-Real-IP. It has no port where a header
// names none.
func (p *Proxies) Client(r *http.Request) string {
	if !p.trusts(r.RemoteAddr) {
		return r.RemoteAddr
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	switch {
	case len(r.Header["X-Forwarded-For"]) > 0:
	case len(r.Header["Forwarded"]) > 0:
		hops = forwardedFor(strings.Join(r.Header["Forwarded"], ","))
	default:
		hops = r.Header["X-Real-Ip"]
	}
	client := r.RemoteAddr
	for _, hop := range slices.Backward(hops) {
		ip, ok := ParseHop(hop)
		if !ok {
			break
		}
		client = ip.String()
		if !p.Has(ip) {
			break
		}
	}
	return client
}

// Strip removes what a peer says of the client's side, unless that may be believed: with
// trusted proxies configured, nobody else chooses the host in the answers.
func (p *Proxies) Strip(r *http.Request) {
	if len(p.Networks) == 0 && !p.Unix || p.trusts(r.RemoteAddr) {
		return
	}
	for _, key := range []string{"Forwarded", "X-Forwarded-Proto", "X-Forwarded-Host"} {
		delete(r.Header, key)
	}
}

// trusts reports whether the peer of a connection is a trusted proxy.
func (p *Proxies) trusts(peer string) bool {
	if len(p.Networks) == 0 && !p.Unix {
		return false
	}
	addr, err := netip.ParseAddrPort(peer)
	if err != nil {
		return p.Unix && (peer == "" || peer[0] == '@' || peer[0] == '/')
	}
	return p.Has(addr.Addr())
}

// Has reports whether an address is that of one of the networks.
func (p *Proxies) Has(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// ParseHop reads an address, with or without a port, IPv6 in brackets then.
func ParseHop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().Unmap(), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}
