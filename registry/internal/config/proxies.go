package config

import (
	"fmt"
	"net/netip"
)

// Proxies is the networks of http.trustedproxies, and whether unix is among them.
func (h *HTTP) Proxies() (networks []netip.Prefix, unix bool, err error) {
	for _, text := range h.TrustedProxies {
		if text == "unix" {
			unix = true
		} else if n, ok := network(text); ok {
			networks = append(networks, n)
		} else {
			return nil, false, fmt.Errorf("%q must be an address, a network such as 10.0.0.0/8, or unix", text)
		}
	}
	return networks, unix, nil
}

// Excluded is the networks of storage.redirect.exclude.
func (r *Redirect) Excluded() (networks []netip.Prefix, err error) {
	for _, text := range r.Exclude {
		n, ok := network(text)
		if !ok {
			return nil, fmt.Errorf("%q must be an address, or a network such as 10.0.0.0/8", text)
		}
		networks = append(networks, n)
	}
	return networks, nil
}

// network reads an address or a network.
func network(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), true
	}
	n, err := netip.ParsePrefix(text)
	return n.Masked(), err == nil
}
