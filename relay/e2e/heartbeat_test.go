package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A cron job that dies has one alarm, whatever becomes of the relay, and an edit of that when it is back.
func TestHeartbeat(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("cron", "")
	if out, err := s.command("app", "set", "cron", "--heartbeat", "1m", "--heartbeat-grace", "1s", "--config", s.configure()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if status, out := s.ask(http.MethodGet, fmt.Sprint("/application/", a.id), nil); status != http.StatusOK || out["heartbeat"] != "1m" {
		t.Fatalf("%d, heartbeat %v", status, out["heartbeat"])
	}
	s.within(3*time.Minute, "an alarm", func() bool { return len(s.bodies(a.room)) == 1 })
	s.kill()
	s.start()
	if got := s.bodies(a.room); len(got) != 1 || !strings.HasPrefix(got[0], "[high] No heartbeat") {
		t.Errorf("after a restart: %q", got)
	}
	if status, _ := s.request(http.MethodGet, "/heartbeat/"+a.token, nil, func(r *http.Request) { r.Header.Del("Authorization") }); status != http.StatusOK {
		t.Fatalf("heartbeat: %d", status)
	}
	s.eventually("an edit", func() bool { return len(s.bodies(a.room)) >= 2 })
	if got := s.bodies(a.room)[1]; !strings.Contains(got, "The heartbeat is back.") {
		t.Errorf("%q", got)
	}
}
