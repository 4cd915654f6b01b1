package clientaddr

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

// Forwarded returns the scheme and host that the client used, as a reverse proxy
// reports them: the first element of Forwarded (RFC 7239) or, without that header,
// of X-Forwarded-Proto and X-Forwarded-Host. Values that aren't valid in a URL are
// ignored.
func Forwarded(h http.Header) (scheme, host string) {
	if values := h["Forwarded"]; len(values) > 0 {
		scheme, host = parseForwarded(values[0])
	} else {
		scheme, host = firstElement(h.Get("X-Forwarded-Proto")), firstElement(h.Get("X-Forwarded-Host"))
	}
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" {
		scheme = ""
	}
	if !validHost(host) {
		host = ""
	}
	return scheme, host
}

// parseForwarded reads proto and host of the first element; both are "" if the
// element does not follow the grammar.
func parseForwarded(s string) (proto, host string) {
	for {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return "", ""
		}
		value, rest, ok := forwardedValue(rest)
		if !ok {
			return "", ""
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "proto":
			proto = value
		case "host":
			host = value
		}
		if rest == "" || rest[0] == ',' {
			return proto, host
		}
		s = rest[1:]
	}
}

// forwardedValue reads a token or quoted string up to the next ';', ',' or end.
func forwardedValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, ";,"); i >= 0 {
			return strings.TrimSpace(s[:i]), s[i:], true
		}
		return strings.TrimSpace(s), "", true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			rest = strings.TrimSpace(s[i+1:])
			return b.String(), rest, rest == "" || rest[0] == ';' || rest[0] == ','
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

func firstElement(s string) string {
	first, _, _ := strings.Cut(s, ",")
	return strings.TrimSpace(first)
}

// validHost reports whether s consists of characters of host names, addresses and
// ports, none of which ends the host in a URL.
func validHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		if lower := c | 0x20; (lower < 'a' || lower > 'z') && (c < '0' || c > '9') && strings.IndexByte(".-_:[]", c) < 0 {
			return false
		}
	}
	return s != ""
}

// forwardedFor returns the "for" parameters of a Forwarded header; nil if the header
// is malformed.
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
