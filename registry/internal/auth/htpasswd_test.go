package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/crypto/bcrypt"

	"slipway/registry/internal/access"
	"slipway/registry/internal/oci"
)

func line(t testing.TB, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return user + ":" + string(hash) + "\n"
}

// write replaces the file as `registry htpasswd` does.
func write(t testing.TB, path string, lines ...string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// tested is a password file together with what decides by it.
type tested struct {
	*Htpasswd
	*Authorizer
}

func open(t testing.TB, o HtpasswdOptions, lines ...string) *tested {
	t.Helper()
	return openFor(t, o, access.UsersOnly(false), lines...)
}

func openFor(t testing.TB, o HtpasswdOptions, rules *access.Rules, lines ...string) *tested {
	t.Helper()
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Path = filepath.Join(t.TempDir(), "htpasswd")
	write(t, o.Path, lines...)
	h, err := NewHtpasswd(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	h.brake.step = 0 // all requests come from one address
	return &tested{h, NewAuthorizer(Options{Rules: func() *access.Rules { return rules }, Logins: &Logins{Htpasswd: h}, Realm: "basic-realm"})}
}

func request(header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v2/", nil)
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return r
}

func basic(user, password string) *http.Request {
	r := request("")
	r.SetBasicAuth(user, password)
	return r
}

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	var refused *Refusal
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return refused
}

func TestAuthorize(t *testing.T) {
	long := strings.Repeat("p", 72)
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", long), "\n# carol:x\n", line(t, "dora", "a:b"))
	for _, c := range []struct {
		name string
		r    *http.Request
		want Reason // "" is granted
	}{
		{"right", basic("alice", "secret"), ""},
		{"scheme in another case", request(strings.Replace(basic("alice", "secret").Header.Get("Authorization"), "Basic", "bASIC", 1)), ""},
		{"colon in the password", basic("dora", "a:b"), ""},
		{"wrong password", basic("alice", "Secret"), WrongPassword},
		{"password of another user", basic("alice", long), WrongPassword},
		{"unknown user", basic("mallory", "secret"), UnknownUser},
		{"user in another case", basic("Alice", "secret"), UnknownUser},
		{"commented out", basic("# carol", "x"), UnknownUser},
		{"empty password", basic("alice", ""), WrongPassword},
		{"what bcrypt does not look at", basic("bob", long+"tail"), ""},
		{"no header", request(""), NoCredentials},
		{"empty credentials", basic("", ""), NoCredentials},
		{"bearer", request("Bearer abc"), BadHeader},
		{"no base64", request("Basic %%%"), BadHeader},
		{"no colon", request("Basic YWxpY2U="), BadHeader},
		{"too long", basic("alice", strings.Repeat("x", 4000)), BadHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second time from memory
				grant, err := h.Authorize(c.r, Access{Action: Push, Repository: "a/b"})
				if c.want == "" {
					if err != nil || grant.User == "" {
						t.Fatalf("got %+v, %v", grant, err)
					}
					continue
				}
				refused := refusal(t, err)
				if refused.Reason != c.want || refused.Err.Code != oci.CodeUnauthorized {
					t.Errorf("got %v, want %v", refused, c.want)
				}
				if refused.Challenge != `Basic realm="basic-realm"` {
					t.Errorf("challenge %q", refused.Challenge)
				}
			}
		})
	}
}

func TestRecords(t *testing.T) {
	h := open(t, HtpasswdOptions{})
	for _, c := range []struct {
		name string
		a    Access
		want string
	}{
		{"version check", Access{Action: Ping}, `null`},
		{"catalog", Access{Action: Catalog}, `[{"Type":"registry","Class":"","Name":"catalog","Action":"*"}]`},
		{"pull", Access{Action: Pull, Repository: "r"}, `[{"Type":"repository","Class":"","Name":"r","Action":"pull"}]`},
		{"delete", Access{Action: Delete, Repository: "r"}, `[{"Type":"repository","Class":"","Name":"r","Action":"delete"}]`},
		{
			"mount",
			Access{Action: Push, Repository: "r", From: "s"},
			`[{"Type":"repository","Class":"","Name":"r","Action":"pull"},{"Type":"repository","Class":"","Name":"r","Action":"push"},{"Type":"repository","Class":"","Name":"s","Action":"pull"}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := h.Authorize(request(""), c.a)
			got, _ := json.Marshal(refusal(t, err).Err.Detail)
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAnonymousPull(t *testing.T) {
	h := openFor(t, HtpasswdOptions{}, access.UsersOnly(true), line(t, "alice", "secret"))
	for _, c := range []struct {
		name   string
		r      *http.Request
		action Action
		want   bool
	}{
		{"pull", request(""), Pull, true},
		{"pull as skopeo asks", basic("", ""), Pull, true},
		{"pull with a wrong password", basic("alice", "no"), Pull, false},
		{"push", request(""), Push, false},
		{"delete", request(""), Delete, false},
		{"catalog", request(""), Catalog, false},
		{"version check", request(""), Ping, false},
		{"push with credentials", basic("alice", "secret"), Push, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := h.Authorize(c.r, Access{Action: c.action, Repository: "r"}); (err == nil) != c.want {
				t.Errorf("got %v, want granted %v", err, c.want)
			}
		})
	}
}

func TestMissingFileNamesTheCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	_, err := NewHtpasswd(HtpasswdOptions{Path: path, Log: zap.NewNop()})
	if err == nil || !strings.Contains(err.Error(), "registry htpasswd "+path+" USER") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made")
	}
}

// lookNow lets the next request look at the file without waiting a second.
func (h *tested) lookNow() { h.file.nextLook.Store(0) }

func TestFileChanges(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := open(t, HtpasswdOptions{Log: zap.New(core)}, line(t, "alice", "old"))
	try := func(user, password string) error {
		_, err := h.Authorize(basic(user, password), Access{Action: Ping})
		return err
	}
	if err := try("alice", "old"); err != nil {
		t.Fatal(err)
	}

	write(t, h.file.path, line(t, "alice", "new"), line(t, "bob", "b"))
	h.lookNow()
	if try("alice", "old") == nil {
		t.Error("the old password is still remembered")
	}
	if try("alice", "new") != nil || try("bob", "b") != nil {
		t.Error("the new lines are not in force")
	}

	if err := os.Remove(h.file.path); err != nil {
		t.Fatal(err)
	}
	h.lookNow()
	for range 3 {
		refused := refusal(t, try("alice", "new"))
		if refused.Err.Code != oci.CodeUnavailable || refused.RetryAfter == 0 || refused.Challenge != "" {
			t.Errorf("without the file: %+v", refused)
		}
		h.lookNow()
	}
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 1 {
		t.Errorf("the missing file was reported %d times, want once", n)
	}

	write(t, h.file.path, line(t, "bob", "b"))
	h.lookNow()
	if try("bob", "b") != nil {
		t.Error("the file is back and nobody gets in")
	}
	if try("alice", "new") == nil {
		t.Error("a removed user gets in")
	}
}

func TestChangeIsSeenWithoutHelp(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "old"))
	// Rewritten in place, same size, within the resolution of the time stamp.
	if err := os.WriteFile(h.file.path, []byte(line(t, "alice", "new")), 0o600); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * time.Second)
	for {
		if _, err := h.Authorize(basic("alice", "new"), Access{Action: Ping}); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the change is not seen after 3 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestBrokenLinesAreReportedOnceAndSkipped(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	const md5 = "carl:$apr1$zzzz$abcdefghijklmnopqrstu.\n"
	good := line(t, "alice", "secret")
	h := open(t, HtpasswdOptions{Log: zap.New(core)},
		"dora hunter2\n", md5, "sha:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "plain:hunter2\n", ":$2y$\n", "cut:$2y$05$abc\n",
		"slow:$2y$31$NoSuchUserInThisFileNobodyKnowsThePasswordOfThisHash.\n", good)
	if _, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err != nil {
		t.Errorf("the good line does not count: %v", err)
	}
	if n := logs.Len(); n != 7 {
		t.Errorf("%d lines reported, want 7: %v", n, logs.All())
	}
	for _, e := range logs.All() {
		for _, f := range e.Context {
			if strings.Contains(f.String, "hunter2") || strings.Contains(f.String, "$apr1") {
				t.Errorf("a line of the log holds a secret: %v", e)
			}
		}
	}
	logs.TakeAll()
	write(t, h.file.path, md5, good)
	h.lookNow()
	_, _ = h.Authorize(basic("alice", "secret"), Access{Action: Ping})
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 0 {
		t.Errorf("%d lines reported again", n)
	}
}

// TestLastLineOfAUserCounts: whoever is locked by a line behind his own stays out.
func TestLastLineOfAUserCounts(t *testing.T) {
	for _, last := range []string{"alice:!\n", "alice:\n", line(t, "alice", "other")} {
		h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"), last)
		if _, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err == nil {
			t.Errorf("%q does not count", last)
		}
		if _, err := h.Authorize(basic("bob", "secret"), Access{Action: Ping}); err != nil {
			t.Errorf("bob: %v", err)
		}
	}
}

func TestIdenticalLoginsAreComparedOnce(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	var fresh sync.Map
	hold(h)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping})
			fresh.Store(i, grant.Fresh && err == nil)
		})
	}
	waitFor(t, func() bool {
		h.comparer.mu.Lock()
		defer h.comparer.mu.Unlock()
		for _, k := range h.comparer.calls {
			return len(h.comparer.calls) == 1 && k.waiting == 50
		}
		return false
	})
	release(h)
	wg.Wait()
	fresh.Range(func(k, v any) bool {
		if v != true {
			t.Errorf("request %v was not granted", k)
		}
		return true
	})
	if grant, err := h.Authorize(basic("alice", "secret"), Access{Action: Ping}); err != nil || grant.Fresh {
		t.Errorf("not remembered: %+v, %v", grant, err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for range 500 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it never came to that")
}

// hold keeps comparisons waiting until release.
func hold(h *tested) {
	h.comparer.mu.Lock()
	defer h.comparer.mu.Unlock()
	h.comparer.running = h.comparer.workers
}

func release(h *tested) {
	h.comparer.mu.Lock()
	defer h.comparer.mu.Unlock()
	h.comparer.running = 1
	h.comparer.ended.Go(h.comparer.work)
}

// loginFrom tries to log in from an address.
func loginFrom(ctx context.Context, h *tested, user, password, from string) error {
	r := basic(user, password).WithContext(ctx)
	r.RemoteAddr = from + ":1234"
	_, err := h.Authorize(r, Access{Action: Ping})
	return err
}

// waitForCalls waits until so many comparisons are waited for.
func waitForCalls(t *testing.T, h *tested, n int) {
	t.Helper()
	waitFor(t, func() bool {
		h.comparer.mu.Lock()
		defer h.comparer.mu.Unlock()
		return len(h.comparer.calls) == n
	})
}

// A queue that is full loses what has waited longest of those who fill it, and
// nothing is compared for clients that have hung up.
func TestFullQueue(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"))
	hold(h)
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 2*waitingLimit)
	var wg sync.WaitGroup
	for i := range waitingLimit {
		wg.Go(func() { refused <- loginFrom(ctx, h, "alice", fmt.Sprint(i), "10.0.0.1") })
	}
	waitForCalls(t, h, waitingLimit)
	honest := make(chan error, 1)
	go func() { honest <- loginFrom(t.Context(), h, "bob", "secret", "10.0.0.1") }()
	if got := refusal(t, <-refused); got.Reason != TooManyLogins || got.Err.Code != oci.CodeTooManyRequests || got.RetryAfter == 0 {
		t.Errorf("who fills the queue: %+v", got)
	}
	waitForCalls(t, h, waitingLimit)
	cancel()
	wg.Wait()
	release(h)
	if err := <-honest; err != nil {
		t.Errorf("who came last: %v", err)
	}
	waitForCalls(t, h, 0)
	if n := len(h.comparer.wrong.expires); n != 0 {
		t.Errorf("%d passwords were compared though nobody waited", n)
	}
	if h.comparer.queue.length != 0 || len(h.comparer.queue.hosts) != 0 {
		t.Errorf("left in the queue: %+v", h.comparer.queue)
	}
	if err := loginFrom(t.Context(), h, "alice", "secret", "10.0.0.1"); err != nil {
		t.Errorf("after the flood: %v", err)
	}
}

// Two hundred clients that guess without end, all from the address of those who
// know their passwords, lock nobody out.
func TestGuessesLockNobodyOut(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"), line(t, "bob", "secret"), line(t, "carl", "secret"), line(t, "dora", "secret"))
	const here = "10.0.0.1"
	if err := loginFrom(t.Context(), h, "alice", "secret", here); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_ = loginFrom(ctx, h, "carl", fmt.Sprint(i, n), here)
			}
		})
	}
	waitForCalls(t, h, 200)
	for _, tt := range []struct{ name, user, from string }{
		{"remembered", "alice", here},
		{"not remembered any more", "alice", here},
		{"for the first time", "bob", here},
		{"for the first time, the name that is guessed", "carl", here},
		{"from elsewhere", "dora", "10.0.0.2"},
	} {
		if tt.name == "not remembered any more" {
			h.comparer.right.mu.Lock()
			clear(h.comparer.right.expires)
			h.comparer.right.mu.Unlock()
		}
		began := time.Now()
		if err := loginFrom(t.Context(), h, tt.user, "secret", tt.from); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		t.Logf("%s: %v", tt.name, time.Since(began))
	}
	cancel()
	wg.Wait()
}

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

func TestQueueTakesTurns(t *testing.T) {
	var q queue
	for _, k := range []*call{
		{host: "a", user: "x1"}, {host: "a", user: "x1"}, {host: "a", user: "x1"}, {host: "a", user: "x2"}, {host: "b", user: "y"}, {host: "b", user: "y"}, {host: "c", user: "z", known: true},
	} {
		q.push(k)
	}
	if k := q.dropOldest(); k.host != "a" || k.user != "x1" {
		t.Errorf("dropped %s %s", k.host, k.user)
	}
	var order []string
	for k := q.pop(); k != nil; k = q.pop() {
		order = append(order, k.host+k.user)
	}
	if got := strings.Join(order, " "); got != "cz ax2 by ax1 by ax1" && got != "cz by ax2 by ax1 ax1" {
		t.Errorf("order %s", got)
	}
	if q.length != 0 || len(q.hosts) != 0 {
		t.Errorf("left: %+v", q)
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

func TestUnknownUserCostsAComparison(t *testing.T) {
	u := parseUsers([]byte(line(t, "alice", "secret")))
	hash, known := u.hash([]byte("nobody"), maphash.MakeSeed())
	if known {
		t.Fatal("nobody is known")
	}
	cost, err := checkHash(hash)
	if err != nil || cost != bcrypt.MinCost {
		t.Errorf("the decoy %q: cost %d, %v", hash, cost, err)
	}
	if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("the decoy is not compared: %v", err)
	}
}

func TestMemoIsBounded(t *testing.T) {
	m := newMemo(time.Minute, 8)
	for i := range 100 {
		m.add(sum{byte(i)})
	}
	if len(m.expires) != 8 || !m.has(sum{99}) {
		t.Errorf("%d entries, want 8 and the newest among them", len(m.expires))
	}
	for range 100 {
		m.add(sum{99})
	}
	if len(m.expires) != 8 {
		t.Errorf("%d entries after adding one again", len(m.expires))
	}
}

func TestMemoForgetsWhatNobodyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemo(time.Minute, 8)
		m.add(sum{1})
		m.add(sum{2})
		for range 10 {
			time.Sleep(40 * time.Second)
			if !m.has(sum{1}) {
				t.Fatal("forgotten while in use")
			}
		}
		if m.has(sum{2}) {
			t.Error("remembered though nobody used it")
		}
		time.Sleep(61 * time.Second)
		if m.has(sum{1}) {
			t.Error("remembered for too long")
		}
	})
}

func TestRememberedLoginIsCheap(t *testing.T) {
	h := open(t, HtpasswdOptions{}, line(t, "alice", "secret"))
	r := basic("alice", "secret")
	login := func() { _, _ = h.Authorize(r, Access{Action: Pull, Repository: "r"}) }
	login()
	if n := testing.AllocsPerRun(100, login); n > 10 { // two, but the race detector's pools forget
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRemembered(b *testing.B) {
	h := open(b, HtpasswdOptions{}, line(b, "alice", "secret"))
	r := basic("alice", "secret")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Authorize(r, Access{Action: Pull, Repository: "r"}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseBasic(f *testing.F) {
	f.Add("Basic YWxpY2U6c2VjcmV0")
	f.Add("basic  Og==")
	f.Fuzz(func(t *testing.T, header string) {
		var room [16]byte
		got, ok := parseBasic(header, room[:])
		user, password, want := (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth()
		if want && len(header) < maxCredentials && (!ok || string(got.user) != user || string(got.password) != password) {
			t.Errorf("%q: got %q %q %v, net/http says %q %q", header, got.user, got.password, ok, user, password)
		}
	})
}

func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("a:$2y$05$abc\n#\n:\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for name, hash := range parseUsers(content).hashes {
			if _, err := checkHash(hash); err != nil || name == "" {
				t.Errorf("%q:%q was taken: %v", name, hash, err)
			}
		}
	})
}
