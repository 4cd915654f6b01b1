package auth

import (
	"fmt"
	"testing"
	"time"
)

// The more wrong passwords come from an address, the later they are answered.
func TestBrake(t *testing.T) {
	b, now := newBrake(), time.Now()
	for i := range freeFailures {
		if d := b.failed("a", now); d != 0 {
			t.Errorf("failure %d waits %v", i, d)
		}
	}
	if d := b.failed("a", now); d != brakeStep {
		t.Errorf("the next one waits %v", d)
	}
	for range 100 {
		b.failed("a", now)
	}
	if d := b.failed("a", now); d != maxBrake {
		t.Errorf("after many: %v", d)
	}
	if d := b.failed("b", now); d != 0 {
		t.Errorf("another address waits %v", d)
	}
	if d := b.failed("a", now.Add(brakeMemory+time.Second)); d != 0 {
		t.Errorf("after a minute: %v", d)
	}
	for i := range 2 * maxBrakeHosts {
		b.failed(fmt.Sprint(i), now)
	}
	if len(b.hosts) > maxBrakeHosts {
		t.Errorf("%d addresses are remembered", len(b.hosts))
	}
}

func TestHostOfAnAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "192.0.2.1": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "@": "@",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "2001:db8:1:2:9::1": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := host(addr); got != want {
			t.Errorf("host(%q) = %q, want %q", addr, got, want)
		}
	}
}
