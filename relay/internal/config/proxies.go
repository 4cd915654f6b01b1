package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// Networks reads addresses and networks in CIDR form.
func Networks(list []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range list {
		if !strings.Contains(text, "/") {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
			}
			networks = append(networks, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			continue
		}
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		networks = append(networks, n.Masked())
	}
	return networks, nil
}
