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
		} else if a, err := netip.ParseAddr(text); err == nil {
			networks = append(networks, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		} else if n, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, n.Masked())
		} else {
			return nil, false, fmt.Errorf("%q must be an address, a network such as 10.0.0.0/8, or unix", text)
		}
	}
	return networks, unix, nil
}
