// Package clientaddr finds out where clients come from, behind proxies too.
package clientaddr

import "net/netip"

// Network returns an address without its port, and of IPv6 the /64 network, which one
// customer has whole. What is no address stays as it is. Behind a reverse proxy that is
// not in http.trustedproxies all clients share one.
func Network(addr string) string {
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
