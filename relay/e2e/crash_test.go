package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/relay/internal/faultproxy"
)

// The relay is killed without warning, again and again, while eight senders post
// and the homeserver drops an answer now and then. A sender repeats a request that
// got no answer, under the same key. Each message arrives once, and in order.
// RELAY_E2E_MESSAGES sets how many.
func TestKilledAgainAndAgain(t *testing.T) {
	const rooms = 8
	total, err := strconv.Atoi(cmp.Or(os.Getenv("RELAY_E2E_MESSAGES"), "10000"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.start()
	var apps [rooms]app
	for i := range apps {
		apps[i] = s.application(fmt.Sprint("sender", i), "")
	}
	s.proxy.Script(faultproxy.Rule{Method: http.MethodPut, Path: "/send/", Fault: faultproxy.Sometimes(50, faultproxy.DropAnswer())})
	var senders sync.WaitGroup
	for i, a := range apps {
		senders.Go(func() {
			for n := range total / rooms {
				s.insist(a, fmt.Sprintf("r%d-%d", i, n))
			}
		})
	}
	kills := s.killUntil(func() bool { return s.delivered(apps[:]) >= total*9/10 })
	senders.Wait()
	s.proxy.Script()
	s.within(5*time.Minute, "everything is delivered", func() bool { return s.delivered(apps[:]) >= total/rooms*rooms })
	for i, a := range apps {
		got := s.bodies(a.room)
		if len(got) != total/rooms {
			t.Errorf("room %d has %d messages, want %d", i, len(got), total/rooms)
		}
		for n, body := range got {
			if want := fmt.Sprintf("r%d-%d", i, n); body != want {
				t.Fatalf("room %d: message %d is %q, want %q", i, n, body, want)
			}
		}
	}
	t.Logf("%d messages, %d kills", total, kills)
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

// killUntil kills and starts the relay until enough, and leaves it running.
func (s *site) killUntil(enough func() bool) (kills int) {
	for s.ctx.Err() == nil {
		time.Sleep(500*time.Millisecond + rand.N(3*time.Second))
		if enough() {
			return kills
		}
		s.kill()
		s.launch()
		kills++
	}
	return kills
}

// delivered counts what the relay has noted as sent.
func (s *site) delivered(apps []app) (sent int) {
	for _, a := range apps {
		_, out, err := s.try(http.MethodGet, fmt.Sprint("/application/", a.id), nil, func(r *http.Request) { r.SetBasicAuth("admin", adminPassword) })
		if err != nil {
			return 0 // just being started
		}
		n, _ := out["sent"].(float64)
		sent += int(n)
	}
	return sent
}

func TestSecondRelayOnOneDatabaseIsRefused(t *testing.T) {
	s := newSite(t)
	s.start()
	second := s.command("serve", "--config", s.configure())
	second.Env = append(second.Env, "RELAY_HTTP_LISTENADDRESS=127.0.0.1:0")
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another relay") {
		t.Errorf("error %v, output %s", err, out)
	}
	a := s.application("first", "")
	s.becomes(s.say(a, "still here"), "sent")
}

func TestIdempotencyKey(t *testing.T) {
	s := newSite(t)
	s.start()
	a := s.application("careful", "")
	post := func(text, key string) (int, int64) {
		status, out, err := s.try(http.MethodPost, "/message", object{"token": a.token, "message": text}, func(r *http.Request) {
			r.Header.Set("Idempotency-Key", key)
		})
		if err != nil {
			t.Error(err)
		}
		return status, out.id()
	}
	var all sync.WaitGroup
	var ids [16]int64
	for i := range ids {
		all.Go(func() { _, ids[i] = post("once", "k1") })
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Fatalf("ids %v", ids)
		}
	}
	if status, _ := post("twice", "k1"); status != http.StatusConflict {
		t.Errorf("another body: %d", status)
	}
	s.kill()
	s.start()
	if status, id := post("once", "k1"); status != http.StatusOK || id != ids[0] {
		t.Errorf("after a restart: %d %d", status, id)
	}
	post("other", "k2")
	s.arrives(a.room, "once", "other")
}

// A database that cannot be written to answers 503, and nothing that was
// answered with 200 is lost.
func TestDiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
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
	time.Sleep(2 * time.Second) // the disk is full while deliveries want to be noted
	if out, err := exec.Command("mount", "-o", "remount,size=30m", disk).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	s.within(time.Minute, "all that was accepted", func() bool { return len(s.bodies(a.room)) >= accepted })
	if n := len(s.bodies(a.room)); n != accepted {
		t.Errorf("%d arrived, %d were accepted", n, accepted)
	}
}
