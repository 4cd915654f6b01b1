package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// at is the site as one of the relays serves it.
func (m *member) at() *site {
	s := *m.f.site
	s.url = "http://" + m.addr
	return &s
}

// postTo posts a message to one relay and returns the answer.
func (m *member) postTo(a app, text, query string, header ...string) (int, object, http.Header) {
	s := m.at()
	s.Helper()
	body, err := json.Marshal(object{"message": text})
	s.must(err)
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.url+"/message"+query, bytes.NewReader(body))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	s.must(err)
	defer resp.Body.Close()
	var out object
	_ = json.NewDecoder(resp.Body).Decode(&out) // some answers are no objects
	return resp.StatusCode, out, resp.Header
}

// findings is what the doctor of a relay says.
func (m *member) findings() string {
	status, out := m.at().ask(http.MethodGet, "/doctor", nil)
	if status != http.StatusOK {
		return fmt.Sprint("status ", status, ": ", out["errorDescription"])
	}
	var all []string
	list, _ := out["findings"].([]any)
	for _, f := range list {
		finding, _ := f.(map[string]any)
		all = append(all, fmt.Sprint(finding["text"]))
	}
	return strings.Join(all, "\n")
}

// What one relay is told, the other one knows.
func TestSeveralRelays_ShareWhatTheyKnow(t *testing.T) {
	stub := newStub(t)
	f := newFleetOfItsOwn(t, stub.url, 2) // the doctor complains of one that may lose data
	for _, m := range f.relays {
		m.start()
	}
	leader := f.delivers(nil)
	other := f.relays[0]
	if other == leader {
		other = f.relays[1]
	}

	// The delivering relay makes a room, no matter which relay gets the request.
	a := other.at().application("shared", "")
	f.eventually("the token is known", func() bool { status, _, _ := leader.postTo(a, "m0", ""); return status == http.StatusOK })

	// ?wait= and idempotency keys.
	status, first, _ := other.postTo(a, "m1", "?wait=20s", "Idempotency-Key", "k")
	if status != http.StatusOK || first.text("status") != "sent" {
		t.Errorf("a wait at the relay that does not deliver: %d %v", status, first)
	}
	if status, again, _ := leader.postTo(a, "m1", "", "Idempotency-Key", "k"); status != http.StatusOK || again.id() != first.id() {
		t.Errorf("the key at the other relay: %d, message %d, want %d", status, again.id(), first.id())
	}

	// Counts.
	for _, m := range f.relays {
		f.eventually("both messages are counted", func() bool {
			_, out := m.at().ask(http.MethodGet, fmt.Sprint("/application/", a.id), nil)
			return out["accepted"] == 2.0 && out["sent"] == 2.0
		})
	}

	// Rates.
	limited := leader.at().application("limited", "")
	if status, out := leader.at().ask(http.MethodPut, fmt.Sprint("/application/", limited.id), object{"rate_limit": 1}); status != http.StatusOK {
		t.Fatalf("set a rate: %d %v", status, out)
	}
	f.eventually("the rate is known", func() bool {
		_, out := other.at().ask(http.MethodGet, fmt.Sprint("/application/", limited.id), nil)
		return out["rate_limit"] == 1.0
	})
	refused := 0
	for i := range 8 {
		if status, _, _ := f.relays[i%2].postTo(limited, "x", ""); status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 5 { // one more is let through each minute that this takes
		t.Errorf("%d of 8 refused, at 1 a minute", refused)
	}

	// Failed logins.
	wrong := func(r *http.Request) { r.SetBasicAuth("nobody", "wrong") }
	limitedFrom, begin := 0, time.Now()
	for i := 1; i <= 100 && limitedFrom == 0; i++ {
		if status, _ := f.relays[i%2].at().request(http.MethodGet, "/application", nil, wrong); status == http.StatusTooManyRequests {
			limitedFrom = i
		}
	}
	if most := 23 + 2*int(time.Since(begin)/(6*time.Second)); limitedFrom == 0 || limitedFrom > most { // 10 a minute of each
		t.Errorf("wrong passwords are limited from the attempt %d on, want %d at most", limitedFrom, most)
	}

	// A token that is taken back.
	if status, out := leader.at().ask(http.MethodPost, fmt.Sprint("/application/", a.id, "/token"), object{"grace": "0s"}); status != http.StatusOK {
		t.Fatalf("a new token: %d %v", status, out)
	}
	f.eventually("the old token is refused everywhere", func() bool {
		status, _, _ := other.postTo(a, "never", "")
		return status == http.StatusUnauthorized
	})

	// The delivering relay.
	if said := leader.findings(); !strings.Contains(said, "This relay (") || !strings.Contains(said, "does not replicate synchronously") {
		t.Errorf("the doctor of the one that delivers: %s", said)
	}
	if said := other.findings(); !strings.Contains(said, leader.addr[strings.LastIndexByte(leader.addr, ':'):]+" has been delivering since") {
		t.Errorf("the doctor of the other one: %s", said)
	}

	// After a clean shutdown another relay delivers.
	leader.signal(syscall.SIGTERM)
	<-leader.ended
	leader.proc = nil
	if got := f.delivers(leader); got != other {
		t.Error("nobody takes over")
	}
}

// unavailable wants an answer that asks to come back.
func (m *member) unavailable(path string) {
	m.f.Helper()
	req, err := http.NewRequestWithContext(m.f.ctx, http.MethodGet, "http://"+m.addr+path, http.NoBody)
	if err != nil {
		m.f.Error(err)
		return
	}
	asAdmin(req)
	// One request waits for the database once, 10 s at most, whatever it needs of it; as long again for a busy machine.
	resp, err := (&http.Client{Timeout: 20 * time.Second, Transport: m.f.http.Transport}).Do(req)
	if err != nil {
		m.f.Error(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		m.f.Errorf("%s: %d, Retry-After %q", path, resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}

// Without its database a relay says so and accepts nothing; when it is back, everything continues.
func TestPostgresAway_NothingIsAcceptedAndNothingLost(t *testing.T) {
	stub := newStub(t)
	f := newFleetOfItsOwn(t, stub.url, 1)
	m := f.relays[0]
	m.start()
	f.delivers(nil)
	a := f.application("away", "")
	var want []string
	post := func(text string) int {
		status, _, header := m.postTo(a, text, "")
		switch {
		case status == http.StatusOK:
			want = append(want, text)
		case status == http.StatusServiceUnavailable && header.Get("Retry-After") == "":
			t.Error("503 without Retry-After")
		}
		return status
	}
	if status := post("before"); status != http.StatusOK {
		t.Fatalf("before: %d", status)
	}
	f.pg.Stop()
	if status := post("meanwhile"); status != http.StatusServiceUnavailable {
		t.Errorf("without a database: %d", status)
	}
	f.within(3*time.Minute, "not ready", func() bool { return m.status("/readyz") == http.StatusServiceUnavailable })
	if status := m.status("/health"); status != http.StatusServiceUnavailable {
		t.Errorf("/health: %d", status)
	}
	f.must(f.pg.Launch(f.ctx))
	accepts := func() {
		t.Helper()
		f.within(3*time.Minute, "accepted again", func() bool { return post(fmt.Sprint("after ", len(want))) == http.StatusOK })
		f.within(3*time.Minute, "ready again", func() bool { return m.status("/readyz") == http.StatusOK })
	}
	accepts()

	// A stopping server closes no connection: it answers every request, however many there are.
	f.must(f.pg.Freeze())
	t.Cleanup(func() { _ = f.pg.Thaw() }) // it may have ended
	var asking sync.WaitGroup
	asking.Go(func() {
		if status := post("frozen"); status != http.StatusServiceUnavailable {
			t.Errorf("a message while the database is frozen: %d", status)
		}
	})
	for range 6 {
		for _, path := range []string{"/message", fmt.Sprint("/message/", a.id), "/application", "/message?limit=1"} {
			asking.Go(func() { m.unavailable(path) })
		}
	}
	asking.Wait()
	f.within(3*time.Minute, "not ready", func() bool { return m.status("/readyz") == http.StatusServiceUnavailable })
	f.must(f.pg.Thaw())
	accepts()
	f.within(3*time.Minute, "all that was accepted", func() bool { return len(stub.bodies(a.room)) >= len(want) })
	if got := stub.bodies(a.room); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("arrived: %q, accepted: %q", got, want)
	}
}

// A relay on SQLite moves to PostgreSQL with a message on its way, and back.
func TestMigrate_ThereAndBack(t *testing.T) {
	stub := newStub(t)
	f := newFleet(t, stub.url, 1)
	single := *f.site // the same, with a file and without nginx
	single.url, single.database = "http://"+single.addr, filepath.Join(f.dir, "relay.db")
	s := &single
	t.Cleanup(s.kill)
	s.start()
	a := s.application("mover", "")
	s.becomes(s.say(a, "m0"), "sent")
	s.proxy.Down()
	s.say(a, "m1")
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.must(s.proxy.Up())
	migrate := func(from, to string) {
		t.Helper()
		if out, err := exec.CommandContext(f.ctx, relayBinary, "migrate", "--from", from, "--to", to).CombinedOutput(); err != nil || !strings.Contains(string(out), "done") {
			t.Fatalf("%v: %s", err, out)
		}
	}
	postgres := "postgres:" + f.pg.DSN(f.database)
	migrate("sqlite:"+s.database, postgres)
	m := f.relays[0]
	m.start()
	waits := func(want int) {
		t.Helper()
		f.within(3*time.Minute, fmt.Sprint(want, " messages"), func() bool { return len(stub.bodies(a.room)) == want })
	}
	waits(2)
	if status, _, _ := m.postTo(a, "m2", ""); status != http.StatusOK {
		t.Errorf("the token at PostgreSQL: %d", status)
	}
	waits(3)
	m.signal(syscall.SIGTERM)
	<-m.ended
	m.proc = nil
	s.database = filepath.Join(f.dir, "back.db")
	migrate(postgres, "sqlite:"+s.database)
	s.start()
	s.becomes(s.say(a, "m3"), "sent")
	if got := strings.Join(stub.bodies(a.room), " "); got != "m0 m1 m2 m3" {
		t.Errorf("in the room: %s", got)
	}
}
