package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// The relay is killed without warning, again and again, while eight senders post
// and the homeserver drops an answer now and then. A sender repeats a request that
// got no answer, under the same key. Each message arrives once, and in order, and is
// counted once.
func TestKilledAgainAndAgain(t *testing.T) {
	stub := newStub(t)
	s := newSiteAt(t, stub.url)
	s.killLoop(s.messages(2_000), 400*time.Millisecond, func(a app) []string { return stub.bodies(a.room) })
}

func TestFull_KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	t.Run("Synapse", func(t *testing.T) {
		s := newSite(t)
		s.killLoop(s.messages(800), 3*time.Second, func(a app) []string { return s.bodies(a.room) })
	})
	// Many more messages than Synapse takes in a reasonable time.
	t.Run("stub", func(t *testing.T) {
		stub := newStub(t)
		s := newSiteAt(t, stub.url)
		s.killLoop(s.messages(10_000), 700*time.Millisecond, func(a app) []string { return stub.bodies(a.room) })
	})
}

// messages is how many to send: RELAY_E2E_MESSAGES, or the default.
func (s *site) messages(usual int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("RELAY_E2E_MESSAGES"), strconv.Itoa(usual)))
	s.must(err)
	return n
}

func (s *site) killLoop(total int, life time.Duration, bodies func(app) []string) {
	const rooms = 8
	s.start()
	var apps [rooms]app
	for i := range apps {
		apps[i] = s.application(fmt.Sprint("sender", i), "")
	}
	s.proxy.Script(servertest.Rule{Method: http.MethodPut, Path: "/send/", Fault: servertest.Sometimes(50, servertest.DropAnswer())})
	var posted atomic.Int64
	for i, a := range apps {
		go func() {
			for n := range total / rooms {
				s.insist(a, fmt.Sprintf("r%d-%d", i, n))
				posted.Add(1)
			}
		}()
	}
	kills := s.killUntil(life, func() bool { return posted.Load() == int64(total/rooms*rooms) && !s.pending() })
	s.kill()
	s.start()
	for i, a := range apps {
		if _, app := s.ask(http.MethodGet, fmt.Sprint("/application/", a.id), nil); app["accepted"] != float64(total/rooms) || app["sent"] != app["accepted"] {
			s.Errorf("of %d messages of room %d, %v are counted as accepted and %v as sent", total/rooms, i, app["accepted"], app["sent"])
		}
		got := bodies(a)
		if len(got) != total/rooms {
			s.Errorf("room %d has %d messages, want %d", i, len(got), total/rooms)
		}
		for n, body := range got {
			if want := fmt.Sprintf("r%d-%d", i, n); body != want {
				s.Fatalf("room %d: message %d is %q, want %q", i, n, body, want)
			}
		}
	}
	if kills == 0 {
		s.Error("the relay was never killed")
	}
	s.Logf("%d messages, %d kills", total, kills)
}

// insist posts until the relay says that it has the message.
func (s *site) insist(a app, text string) {
	for {
		status, _, err := s.try(http.MethodPost, "/message", object{"token": a.token, "message": text}, func(r *http.Request) {
			r.Header.Set("Idempotency-Key", text)
		})
		if err == nil && status == http.StatusOK {
			return
		}
		if err == nil && status < 500 {
			s.Errorf("POST /message: %d", status)
			return
		}
		if s.ctx.Err() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// killUntil kills and restarts the relay until enough returns true, and leaves it running. The first run lasts about life, each
// later one 5 % longer, so that the test ends on a machine where starting alone takes that long.
func (s *site) killUntil(life time.Duration, enough func() bool) (kills int) {
	for s.ctx.Err() == nil {
		time.Sleep(life/2 + rand.N(life))
		life += life / 20
		if enough() {
			return kills
		}
		s.kill()
		s.launch()
		kills++
	}
	return kills
}

// pending reports whether any message is still on its way. A relay that does not answer counts as pending.
func (s *site) pending() bool { return s.anyIn(post.PendingStates) }

// undelivered reports whether any message is on its way or in trouble.
func (s *site) undelivered() bool {
	return s.anyIn(slices.Concat(post.PendingStates, post.TroubledStates))
}

// anyIn reports whether any message is in one of the states, or the relay does not answer.
func (s *site) anyIn(states []post.State) bool {
	for _, state := range states {
		status, page, err := s.try(http.MethodGet, "/message?limit=1&state="+string(state), nil, asAdmin)
		waiting, _ := page["messages"].([]any)
		if err != nil || status != http.StatusOK || len(waiting) > 0 {
			return true
		}
	}
	return false
}

// A database that cannot be written to answers 503, and nothing that was
// answered with 200 is lost.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can mount a small file system")
	}
	s := newSite(t)
	disk := filepath.Join(s.dir, "disk")
	s.mountSmall(disk, "3m")
	s.database = filepath.Join(disk, "relay.db")
	s.start()
	a := s.application("full", "")
	s.proxy.Down()
	filler := strings.Repeat("x", 20_000)
	accepted, refused := 0, 0
	for i := 0; i < 400 && refused < 3; i++ {
		status, out, err := s.try(http.MethodPost, "/message", object{"token": a.token, "message": fmt.Sprint(i, " ", filler)}, nil)
		s.must(err)
		switch status {
		case http.StatusOK:
			accepted++
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Fatalf("message %d: %d %v", i, status, out)
		}
	}
	if refused == 0 || accepted == 0 {
		t.Fatalf("%d accepted, %d refused", accepted, refused)
	}
	s.must(s.proxy.Up())
	s.eventually("deliveries are to be noted while the disk is full", func() bool { return len(s.bodies(a.room)) > 0 })
	if out, err := exec.Command("mount", "-o", "remount,size=30m", disk).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	s.within(5*time.Minute, "all that was accepted", func() bool { return len(s.bodies(a.room)) >= accepted })
	if n := len(s.bodies(a.room)); n != accepted {
		t.Errorf("%d arrived, %d were accepted", n, accepted)
	}
}
