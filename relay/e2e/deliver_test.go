package e2e

import (
	"fmt"
	"testing"
)

func TestGracefulStop(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("stopper", "")
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprint("m", i))
		s.say(a, want[i])
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	before := len(s.bodies(a.room))
	s.start()
	s.arrives(a.room, want...)
	if n := len(s.proxy.Records("/logout")); n != 0 {
		t.Errorf("%d logouts", n)
	}
	if n := len(s.proxy.Records("/login")); n != 1 {
		t.Errorf("%d logins over two starts", n)
	}
	t.Logf("%d of 20 were delivered before the stop", before)
}
