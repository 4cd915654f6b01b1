package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// proxies are whom the API believes about the address of a client.
type proxies struct {
	networks []netip.Prefix
	unix     bool // peers on a unix socket too
}

// client is the address of the client: the peer's or, if that is a trusted proxy,
// the last address before the trusted ones in X-Forwarded-For; without that header
// in Forwarded, without both the one in X-Real-IP. It has no port where a header
// names none.
func (p *proxies) client(r *http.Request) string {
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
		ip, ok := parseHop(hop)
		if !ok {
			break
		}
		client = ip.String()
		if !p.has(ip) {
			break
		}
	}
	return client
}

// strip removes what a peer says of the client's side, unless that may be believed: with
// trusted proxies configured, nobody else chooses the host in the answers.
func (p *proxies) strip(r *http.Request) {
	if len(p.networks) == 0 && !p.unix || p.trusts(r.RemoteAddr) {
		return
	}
	for _, key := range []string{"Forwarded", "X-Forwarded-Proto", "X-Forwarded-Host"} {
		delete(r.Header, key)
	}
}

// trusts reports whether the peer of a connection is a trusted proxy.
func (p *proxies) trusts(peer string) bool {
	if len(p.networks) == 0 && !p.unix {
		return false
	}
	addr, err := netip.ParseAddrPort(peer)
	if err != nil {
		return p.unix && (peer == "" || peer[0] == '@' || peer[0] == '/')
	}
	return p.has(addr.Addr())
}

func (p *proxies) has(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// parseHop reads an address, with or without a port, IPv6 in brackets then.
func parseHop(s string) (netip.Addr, bool) {
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

// forwardedFor lists what the elements of a Forwarded header say in "for"; nothing
// if it does not follow the grammar.
func forwardedFor(s string) (hops []string) {
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return nil
		}
		value, rest, ok := forwardedValue(rest)
		if !ok {
			return nil
		}
		if strings.EqualFold(strings.TrimSpace(key), "for") {
			hops = append(hops, value)
		}
		s = strings.TrimLeft(rest, ";, ")
	}
	return hops
}
