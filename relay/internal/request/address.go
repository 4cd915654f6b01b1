package request

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"slipway/relay/internal/refusal"
)

// Address returns the client's address: the peer's or, if the peer is a trusted proxy, the last one in X-Forwarded-For
// that isn't.
func Address(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := peer.Addr().Unmap().WithZone("")
	if !trusts(trusted, addr) {
		return addr.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		a, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = a.Unmap().WithZone("")
		if !trusts(trusted, addr) {
			break
		}
	}
	return addr.String()
}

// Secure reports whether the client uses HTTPS, to the relay or to a trusted proxy.
func Secure(r *http.Request, trusted []netip.Prefix) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && trusts(trusted, peer.Addr().Unmap()) && r.Header.Get("X-Forwarded-Proto") == "https"
}

func trusts(trusted []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Network returns what limits count as one address: an IPv4 address, or the /64 network of an IPv6 address.
// Anything else is returned as it is.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		if n, err := ip.WithZone("").Prefix(64); err == nil {
			return n.String()
		}
	}
	return ip.String()
}

// Origins refuses cross-site requests. Browsers send cookies and passwords with any request and name its origin; other
// clients name none and are admitted. The zero value trusts the requested host only.
type Origins struct{ check *http.CrossOriginProtection }

// NewOrigins trusts pages of publicURL besides those of the requested host; "" adds none.
func NewOrigins(publicURL string) (Origins, error) {
	o := Origins{check: http.NewCrossOriginProtection()}
	if publicURL == "" {
		return o, nil
	}
	u, err := url.Parse(publicURL)
	if err != nil {
		return o, err
	}
	return o, o.check.AddTrustedOrigin(u.Scheme + "://" + u.Host)
}

// Own refuses a state-changing request that comes from another site.
func (o Origins) Own(r *http.Request) error {
	check := o.check
	if check == nil {
		check = http.NewCrossOriginProtection()
	}
	if err := check.Check(r); err != nil {
		return &refusal.Error{Kind: refusal.KindForbidden, Message: "Cross-site requests are refused.", Err: err}
	}
	return nil
}
