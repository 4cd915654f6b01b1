package clientaddr

import "testing"

func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1", "192.0.2.1": "192.0.2.1", "[::ffff:192.0.2.1]:99": "192.0.2.1",
		"[2001:db8:1:2:3::4]:99": "2001:db8:1:2::/64", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "[fe80::1%eth0]:99": "fe80::/64",
		"@": "@", "": "",
	} {
		if got := Network(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
