package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

const (
	adminPassword = "correct horse"
	botPassword   = "battery staple"
)

// site is a relay of its own: database, bot, proxy in front of the homeserver, and the
// administrator, who is a Matrix user too.
type site struct {
	*testing.T
	ctx      context.Context
	name     string
	proxy    *servertest.Proxy
	owner    *servertest.User
	botID    string
	dir      string
	addr     string
	url      string
	database string // file; "" is one in dir
	timeout  string // of a request to the homeserver; "" is the default
	// encryptNew encrypts the rooms that the relay makes. It is off where encryption is not the point: most tests read what arrives
	// at the homeserver, without a device.
	encryptNew bool
	env        []string // of the relay, besides its secrets
	proc       *exec.Cmd
	ended      chan struct{}
	http       *http.Client
}

// newSite prepares a site at Synapse; start runs its relay.
func newSite(t *testing.T) *site {
	t.Helper()
	s := newSiteAt(t, homeserver.URL)
	var err error
	s.owner, err = homeserver.NewUser(s.ctx, s.name+"owner", false)
	s.must(err)
	s.must(homeserver.CreateUser(s.ctx, s.name+"bot", botPassword, false))
	return s
}

// newSiteAt prepares a site at a homeserver where nobody reads along.
func newSiteAt(t *testing.T, upstream string) *site {
	t.Helper()
	t.Parallel()
	return siteAt(t, upstream)
}

// siteAt is newSiteAt for a test that has several of them, or is parallel already.
func siteAt(t *testing.T, upstream string) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	s := &site{T: t, ctx: ctx, name: servertest.Name(), dir: t.TempDir(), addr: programtest.FreeAddr(t)}
	s.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(s.http.CloseIdleConnections)
	var err error
	s.proxy, err = servertest.StartProxy(upstream)
	s.must(err)
	t.Cleanup(s.proxy.Close)
	s.botID = "@" + s.name + "bot:localhost"
	s.url = "http://" + s.addr
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.dir, "relay.log"))
			t.Logf("the relay's log:\n%s", log[max(0, len(log)-8000):])
		}
	})
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// configure writes the configuration and returns its path.
func (s *site) configure() string {
	s.Helper()
	file := filepath.Join(s.dir, "relay.yml")
	database, timeout := cmp.Or(s.database, filepath.Join(s.dir, "relay.db")), cmp.Or(s.timeout, "1m")
	text := fmt.Sprintf(`http:
  listenaddress: %q
database:
  dialect: sqlite
  connection: %q
matrix:
  homeserver: %q
  username: %q
  password: ${MATRIX_PASSWORD}
  timeout: %s
  encrypt_new_rooms: %t
admin:
  name: admin
  password: ${ADMIN_PASSWORD}
  matrixid: %q
security:
  checktoken: true
formatting:
  coloredtitle: true
limits:
  wait: 5m # a busy machine takes longer
logging:
  level: info
`, s.addr, database, s.proxy.URL, s.botID, timeout, s.encryptNew, "@"+s.name+"owner:localhost")
	s.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// command prepares the relay's binary with the site's secrets in its environment.
func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, relayBinary, args...)
	cmd.Env = append(append(os.Environ(), "MATRIX_PASSWORD="+botPassword, "ADMIN_PASSWORD="+adminPassword), s.env...)
	return cmd
}

// launch runs the relay without waiting until it answers.
func (s *site) launch() {
	s.Helper()
	s.spawn(s.command("serve", "--config", s.configure()))
}

func (s *site) spawn(serve *exec.Cmd) {
	s.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "relay.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	defer log.Close()
	serve.Stdout, serve.Stderr = log, log
	s.must(serve.Start())
	s.proc = serve
	s.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // its exit is checked where it matters
		close(ended)
	}(s.proc, s.ended)
}

// start runs the relay and waits until it answers.
func (s *site) start() {
	s.Helper()
	s.launch()
	s.answers()
}

func (s *site) answers() {
	s.Helper()
	s.eventually("the relay answers", func() bool {
		resp, err := s.http.Get(s.url + "/livez")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// stop ends the relay as an operator would and returns its exit code.
func (s *site) stop() int {
	s.Helper()
	s.must(s.proc.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		s.Fatal("the relay does not end")
	}
	code := s.proc.ProcessState.ExitCode()
	s.proc = nil
	return code
}

// kill ends the relay as a crash would.
func (s *site) kill() {
	if s.proc == nil {
		return
	}
	_ = s.proc.Process.Kill() // it may have ended
	<-s.ended
	s.proc = nil
}

// eventually waits until a condition holds, however busy the machine is.
func (s *site) eventually(what string, holds func() bool) {
	s.Helper()
	s.within(5*time.Minute, what, holds)
}

func (s *site) within(limit time.Duration, what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatalf("never: %s", what)
}

// object is a JSON answer.
type object map[string]any

func (o object) id() int64 {
	id, _ := o["id"].(float64)
	return int64(id)
}

func (o object) text(name string) string {
	text, _ := o[name].(string)
	return text
}

// ask makes a request as the administrator; in is a JSON body or nil.
func (s *site) ask(method, path string, in any) (int, object) {
	s.Helper()
	return s.request(method, path, in, asAdmin)
}

func asAdmin(r *http.Request) { r.SetBasicAuth("admin", adminPassword) }

func (s *site) request(method, path string, in any, prepare func(*http.Request)) (int, object) {
	s.Helper()
	status, out, err := s.try(method, path, in, prepare)
	s.must(err)
	return status, out
}

func (s *site) try(method, path string, in any, prepare func(*http.Request)) (int, object, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(s.ctx, method, s.url+path, body)
	if err != nil {
		return 0, nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if prepare != nil {
		prepare(req)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	var out object
	_ = json.Unmarshal(answer, &out) // some answers are no objects
	return resp.StatusCode, out, nil
}

// app is an application with its token and room.
type app struct {
	id    int64
	token string
	room  string
}

// application makes an application in a room, or with one of the bot's making
// that the owner then enters.
func (s *site) application(name, room string) app {
	s.Helper()
	in := object{"name": name}
	if room != "" {
		in["room_id"] = room
	}
	status, out := s.ask(http.MethodPost, "/application", in)
	if status != http.StatusCreated {
		s.Fatalf("create application: %d %v", status, out)
	}
	a := app{id: out.id(), token: out.text("token"), room: room}
	if room == "" {
		a.room = s.roomOf(a.id)
		if s.owner != nil {
			s.must(s.owner.Join(s.ctx, a.room))
		}
	}
	return a
}

// roomOf waits for the room that the bot makes for an application. If the homeserver takes more than 5 s for it, the relay tries again
// ten minutes later, or at its next start.
func (s *site) roomOf(id int64) (room string) {
	s.Helper()
	begin, again := time.Now(), false
	s.eventually("the bot makes a room", func() bool {
		if s.proc != nil && !again && time.Since(begin) > 20*time.Second {
			again = true
			s.stop()
			s.start()
		}
		_, out := s.ask(http.MethodGet, fmt.Sprint("/application/", id), nil)
		room = out.text("resolved_room_id")
		return room != ""
	})
	return room
}

// ownersRoom is a room of the owner's that the bot is invited to.
func (s *site) ownersRoom(extra map[string]any) string {
	s.Helper()
	room, err := s.owner.CreateRoom(s.ctx, s.name+"room", []string{s.botID}, extra)
	s.must(err)
	return room
}

// post sends a message and wants it accepted.
func (s *site) post(a app, fields object) int64 {
	s.Helper()
	in := object{"token": a.token}
	for k, v := range fields {
		in[k] = v
	}
	status, out := s.request(http.MethodPost, "/message", in, nil)
	if status != http.StatusOK || out["success"] != true || out.id() == 0 {
		s.Fatalf("POST /message: %d %v", status, out)
	}
	return out.id()
}

func (s *site) say(a app, text string) int64 {
	s.Helper()
	return s.post(a, object{"message": text})
}

func (s *site) message(id int64) object {
	s.Helper()
	status, out := s.ask(http.MethodGet, fmt.Sprint("/message/", id), nil)
	if status != http.StatusOK {
		s.Fatalf("GET /message/%d: %d %v", id, status, out)
	}
	return out
}

// becomes waits until a message has a state and returns it.
func (s *site) becomes(id int64, state string) object {
	s.Helper()
	var m object
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		if m = s.message(id); m.text("status") == state {
			return m
		}
	}
	s.Fatalf("message %d never became %s: %v", id, state, m)
	return nil
}

// events of the room that the bot sent, as the owner reads them.
func (s *site) events(room string) []servertest.SynapseEvent {
	s.Helper()
	all, err := s.owner.Messages(s.ctx, room, "m.room.message")
	s.must(err)
	return slices.DeleteFunc(all, func(e servertest.SynapseEvent) bool { return e.Sender != s.botID })
}

func (s *site) bodies(room string) []string {
	s.Helper()
	var all []string
	for _, e := range s.events(room) {
		all = append(all, e.Field("body"))
	}
	return all
}

// sealed are the encrypted events of a room that are not removed.
func (s *site) sealed(room string) []servertest.SynapseEvent {
	s.Helper()
	all, err := s.owner.Messages(s.ctx, room, "m.room.encrypted")
	s.must(err)
	return slices.DeleteFunc(all, func(e servertest.SynapseEvent) bool { return e.Field("ciphertext") == "" })
}

// wantBodies holds the room against exactly these messages, in order.
func (s *site) wantBodies(room string, want ...string) {
	s.Helper()
	if got := s.bodies(room); !slices.Equal(got, want) {
		s.Errorf("in the room: %q\nwant: %q", got, want)
	}
}

// arrives waits until the room has these messages, then makes sure it stays so.
func (s *site) arrives(room string, want ...string) {
	s.Helper()
	var got []string
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got = s.bodies(room); slices.Equal(got, want) {
			return
		}
	}
	s.Fatalf("in the room: %q\nwant: %q", got, want)
}

func (s *site) wantReason(m object, part string) {
	s.Helper()
	if !strings.Contains(m.text("last_error"), part) {
		s.Errorf("last_error = %q, want something of %q", m.text("last_error"), part)
	}
}

// botToken is the access token that the relay sent last.
func (s *site) botToken() string {
	s.Helper()
	records := s.proxy.Records("/")
	for i := len(records) - 1; i >= 0; i-- {
		if token, ok := strings.CutPrefix(records[i].Header.Get("Authorization"), "Bearer "); ok {
			return token
		}
	}
	s.Fatal("the relay sent no token")
	return ""
}

// mountSmall mounts a file system of a few MiB for the time of the test.
func (s *site) mountSmall(dir, size string) {
	s.Helper()
	s.must(os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			s.Fatalf("cannot mount a small file system: %v: %s", err, out)
		}
		s.Skipf("cannot mount a small file system: %v: %s", err, out)
	}
	s.Cleanup(func() {
		s.kill()
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			s.Errorf("umount: %v: %s", err, out)
		}
	})
}
