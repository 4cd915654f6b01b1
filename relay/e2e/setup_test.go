package e2e

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// ground is where `relay setup` starts from: a homeserver with nobody on it, and a
// configuration.
type ground struct {
	*site
	hs      *servertest.Homeserver
	dsn     string // of a shared database, "" for a file
	secrets string
	bot     string
	person  string
}

// newGround prepares a place on hs for a bot and a person of their own.
func newGround(t *testing.T, hs *servertest.Homeserver) *ground {
	t.Helper()
	g := &ground{site: siteAt(t, hs.URL), hs: hs}
	g.secrets, g.bot, g.person = filepath.Join(g.dir, "secrets"), g.name+"bot", g.name+"owner"
	return g
}

// beside prepares another place on the same homeserver, whose administrator both
// share.
func (g *ground) beside(t *testing.T) *ground {
	t.Helper()
	other := newGround(t, g.hs)
	g.must(os.MkdirAll(other.secrets, 0o700))
	for _, name := range []string{"homeserver_admin_password", "homeserver_admin_token"} {
		g.must(os.WriteFile(filepath.Join(other.secrets, name), []byte(g.secret(name)), 0o600))
	}
	return other
}

// newSynapse is a homeserver of a test's own.
func newSynapse(t *testing.T, limits bool) *servertest.Homeserver {
	t.Helper()
	t.Parallel()
	return startSynapse(t, limits)
}

func startSynapse(t *testing.T, limits bool) *servertest.Homeserver {
	t.Helper()
	hs, err := servertest.StartSynapse(t.Context(), servertest.SynapseOptions{Dir: t.TempDir(), DefaultRateLimits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hs.Stop)
	return hs
}

// setupFile writes the configuration that names the files of the secrets.
func (g *ground) setupFile() string {
	g.Helper()
	file := filepath.Join(g.dir, "setup.yml")
	database := fmt.Sprintf("{connection: %q}", filepath.Join(g.dir, "data", "relay.db"))
	if g.dsn != "" {
		database = fmt.Sprintf("{dialect: postgres, connection: %q}", g.dsn)
	}
	text := fmt.Sprintf("http: {listenaddress: %q}\ndatabase: %s\nmatrix: {homeserver: %q, username: %q, password_file: %q, encrypt_new_rooms: false}\n"+
		"admin: {password_file: %q, matrixid: %q}\nhook: {registry: {secret_file: %q}}\nlimits: {wait: 5m}\n", g.addr, database, g.hs.URL, "@"+g.bot+":localhost",
		filepath.Join(g.secrets, "matrix_password"), filepath.Join(g.secrets, "admin_password"), "@"+g.person+":localhost", filepath.Join(g.secrets, "hook_secret"))
	g.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (g *ground) setupCommand(more ...string) *exec.Cmd {
	args := []string{"setup", "--config", g.setupFile(), "--secrets", g.secrets, "--registration-secret-file", g.hs.SecretFile(), "--wait", "5m"}
	return exec.CommandContext(g.ctx, relayBinary, append(args, more...)...)
}

// setup runs `relay setup`, which is to end with the exit code and to say the texts.
func (g *ground) setup(code int, texts []string, more ...string) {
	g.Helper()
	out, err := g.setupCommand(more...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		g.Fatal(err)
	}
	if (code == 0) != (err == nil) {
		g.Fatalf("relay setup %v: %v, want exit code %d\n%s", more, err, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			g.Errorf("relay setup %v does not say %q:\n%s", more, text, out)
		}
	}
	for _, name := range []string{"matrix_password", "admin_password", "hook_secret", "person_password", "relay_token", "homeserver_admin_token"} {
		if secret := g.secret(name); secret != "" && strings.Contains(string(out), secret) {
			g.Errorf("relay setup %v shows %s", more, name)
		}
	}
}

func (g *ground) secret(name string) string {
	text, err := os.ReadFile(filepath.Join(g.secrets, name))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	g.must(err)
	return strings.TrimSpace(string(text))
}

// serve runs the relay on what the setup has made.
func (g *ground) serve() {
	g.Helper()
	g.spawn(exec.CommandContext(g.ctx, relayBinary, "serve", "--config", g.setupFile()))
	g.answers()
}

// works sends a message with the application's token and waits until the person
// has it; there is exactly one room that the person is in.
func (g *ground) works(text string) {
	g.Helper()
	if header := g.secret("registry_headers"); header != "Authorization: Bearer "+g.secret("relay_token") {
		g.Fatalf("the header file holds %q", header)
	}
	g.serve()
	defer g.kill()
	person, err := g.hs.Login(g.ctx, g.person, g.secret("person_password"))
	g.must(err)
	var joined struct {
		Rooms []string `json:"joined_rooms"`
	}
	g.must(person.Call(g.ctx, "GET", "/_matrix/client/v3/joined_rooms", nil, &joined))
	if len(joined.Rooms) != 1 {
		g.Fatalf("%s is in the rooms %v, want one", g.person, joined.Rooms)
	}
	g.says(0, []string{" sent $"}, "send", "--url", g.url, "--token", g.secret("relay_token"), "--wait", "5m", text)
	events, err := person.Messages(g.ctx, joined.Rooms[0], "m.room.message")
	g.must(err)
	if len(events) == 0 || events[len(events)-1].Field("body") != text {
		g.Fatalf("the room holds %v, want %q at its end", events, text)
	}
}

// takesSigned: the relay takes what is signed with the secret that the registry has,
// and nothing else.
func (g *ground) takesSigned() {
	g.Helper()
	const body = `{"events":[]}`
	now, bearer := time.Now().Unix(), "Bearer "+g.secret("relay_token")
	mac := hmac.New(sha256.New, []byte(g.secret("hook_secret")))
	fmt.Fprintf(mac, "%d.%s.%s", now, bearer, body)
	for signature, want := range map[string]int{"": 401, fmt.Sprintf("t=%d,v2=%x", now, mac.Sum(nil)): 200} {
		req, err := http.NewRequestWithContext(g.ctx, http.MethodPost, g.url+"/hook/registry", strings.NewReader(body))
		g.must(err)
		req.Header.Set("Authorization", bearer)
		req.Header.Set("X-Slipway-Signature", signature)
		resp, err := http.DefaultClient.Do(req)
		g.must(err)
		resp.Body.Close()
		if resp.StatusCode != want {
			g.Errorf("an envelope with the signature %q is answered with %d, want %d", signature, resp.StatusCode, want)
		}
	}
}

// TestSetup: on a homeserver with its usual limits, from nothing to a message, and
// again and again.
func TestSetup(t *testing.T) {
	g := newGround(t, newSynapse(t, true))
	g.setup(0, []string{
		"matrix_password, admin_password, hook_secret, registry_http_secret created", "account @slipway-admin:localhost: created",
		"account @" + g.bot + ":localhost: created", "limit of messages of @" + g.bot + ":localhost: lifted",
		"account @" + g.person + ":localhost: created", "application registry: created", "@" + g.person + ":localhost has joined",
	})
	files, err := filepath.Glob(filepath.Join(g.secrets, "*"))
	g.must(err)
	if len(files) < 7 {
		t.Errorf("files %v", files)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", f, info.Mode(), err)
		}
	}
	token := g.secret("relay_token")
	for range 6 { // more often than the homeserver lets anybody log in
		g.setup(0, []string{"secrets: already exist", "its token in ", "membership of @" + g.person + ":localhost: join"})
	}
	g.serve()
	g.setup(0, []string{"its token in "}, "--url", g.url)
	g.setup(0, []string{"its token in "})
	if g.secret("relay_token") != token {
		t.Error("the token has changed")
	}
	g.takesSigned()
	for i := range 29 { // of another account the homeserver would take 10 at once, and then one in 5 seconds
		g.say(app{token: token}, fmt.Sprint("message ", i))
	}
	g.says(0, []string{" sent $"}, "send", "--url", g.url, "--token", token, "--wait", "5m", "the last one")
	g.collectsPushes()
}

// TestSetupAgain: a setup is killed, parts of what it made are lost, or were never ours, or a relay runs. The homeserver is one
// that has been used.
func TestSetupAgain(t *testing.T) {
	t.Parallel()
	g := newGround(t, homeserver)
	g.setup(0, nil, "--reset-passwords") // its administrator may be that of another run
	for _, lines := range []int{3, 7} {
		g.beside(t).continues(lines)
	}
	t.Run("wrong", func(t *testing.T) { newGround(t, homeserver).saysWhatIsWrong() })
	t.Run("served", func(t *testing.T) { g.beside(t).refusesWhileServed() })
	t.Run("shared", func(t *testing.T) { g.beside(t).sharesDatabase() })
	t.Run("lost", func(t *testing.T) { g.beside(t).repairs() }) // the last one, which resets the administrator's password
}

// sharesDatabase: relays share a database, and none of them runs yet.
func (g *ground) sharesDatabase() {
	g.Helper()
	pg, err := servertest.SharedPostgres(g.ctx)
	g.must(err)
	name, err := pg.NewDatabase(g.ctx)
	g.must(err)
	g.dsn = pg.DSN(name)
	for range 2 {
		g.setup(0, []string{"@" + g.person + ":localhost"})
	}
	g.works("shared")
}

// The setup is killed behind each line that it says, a little later each time.
func TestFull_SetupInterrupted(t *testing.T) {
	g := newGround(t, newSynapse(t, false))
	g.setup(0, nil)
	for lines := range 10 {
		g.beside(t).continues(lines)
	}
}

// continues kills the setup behind a line that it says: the next one continues from there.
func (g *ground) continues(lines int) {
	g.Helper()
	if said := g.interrupt(lines, time.Duration(lines%3)*30*time.Millisecond); said < min(lines, 8) {
		g.Errorf("the setup said %d lines before it was killed, want %d", said, lines)
	}
	g.setup(0, nil)
	g.works(fmt.Sprint("interrupted behind line ", lines))
}

// interrupt kills a setup a while after it has printed n lines, and returns how
// many it said in all.
func (g *ground) interrupt(lines int, after time.Duration) (said int) {
	g.Helper()
	cmd := g.setupCommand()
	out, err := cmd.StdoutPipe()
	g.must(err)
	var errout bytes.Buffer
	cmd.Stderr = &errout
	g.must(cmd.Start())
	read := bufio.NewScanner(out)
	for said < lines && read.Scan() {
		said++
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	for read.Scan() {
		said++
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed, or done before
	return said
}

// repairs: parts of what was made are lost, or were never ours.
func (g *ground) repairs() {
	g.Helper()
	g.setup(0, nil)
	remove := func(names ...string) {
		g.Helper()
		for _, name := range names {
			g.must(os.Remove(filepath.Join(g.secrets, name)))
		}
	}
	another := "exists already with another password: write its password to " + g.secrets

	remove("relay_token", "registry_headers", "registry_http_secret")
	g.setup(0, []string{"registry_http_secret created", "already exists, a new token is in"})
	g.works("after the token was lost")
	shown, err := exec.CommandContext(g.ctx, relayBinary, "setup", "show", "--config", g.setupFile(), "--secrets", g.secrets).CombinedOutput()
	g.must(err)
	for _, name := range []string{"admin_password", "person_password", "relay_token"} {
		if !strings.Contains(string(shown), g.secret(name)) {
			g.Errorf("setup show does not show %s:\n%s", name, shown)
		}
	}

	remove("matrix_password")
	g.setup(1, []string{"@" + g.bot + ":localhost " + another + "/matrix_password, or run setup once with --reset-passwords"})
	g.setup(1, []string{another + "/matrix_password"}) // not only the first time
	g.setup(0, []string{"has the password of the configuration now"}, "--reset-passwords")
	g.works("after the bot's password was lost")

	remove("person_password", "homeserver_admin_token")
	g.setup(0, []string{"account @" + g.person + ":localhost: already exists with a password of its own"})
	if g.secret("person_password") != "" {
		g.Error("a password is shown that is not the person's")
	}
	g.setup(0, []string{"already exists, its password is in"}, "--reset-passwords")
	g.works("after the person's password was lost")

	g.must(os.RemoveAll(g.secrets))
	g.must(os.RemoveAll(filepath.Join(g.dir, "data")))
	g.setup(1, []string{"@slipway-admin " + another + "/homeserver_admin_password"})
	g.setup(0, nil, "--reset-passwords")
	g.setup(0, []string{"secrets: already exist"})
}

// TestFull_SetupAfterTheHomeserverWasLost: accounts are created again with the passwords
// that people know; a new room is made only on request.
func TestFull_SetupAfterTheHomeserverWasLost(t *testing.T) {
	g := newGround(t, newSynapse(t, false))
	g.setup(0, nil)
	password := g.secret("person_password")
	g.hs = startSynapse(t, false) // whose name is the same
	made := []string{"account @" + g.bot + ":localhost: created", "account @" + g.person + ":localhost: created", "run setup once with --new-room"}
	g.setup(1, made)
	g.setup(1, []string{"run setup once with --new-room"})
	g.setup(0, []string{"application registry: its room is gone", "application registry: created", "has joined"}, "--new-room")
	if g.secret("person_password") != password {
		t.Error("the person has another password")
	}
	g.works("after the homeserver was lost")
	g.setup(0, []string{"application registry: already exists", "membership of @" + g.person + ":localhost: join"}, "--new-room")
}

// saysWhatIsWrong: the error has the remedy, and nothing is half done that the next run would trip over.
func (g *ground) saysWhatIsWrong() {
	g.Helper()
	wrong := filepath.Join(g.dir, "wrong")
	g.must(os.WriteFile(wrong, []byte("not the secret"), 0o600))
	g.setup(1, []string{"the registration secret is not the homeserver's", "registration_shared_secret_path"}, "--registration-secret-file", wrong)
	g.setup(1, []string{"there is no registration secret in " + wrong + ".missing"}, "--registration-secret-file", wrong+".missing", "--wait", "1s")

	away := *g.hs
	away.URL = "http://" + programtest.FreeAddr(g.T)
	g.hs = &away
	g.setup(1, []string{"the homeserver " + away.URL + " does not answer; start it, or correct matrix.homeserver", "connection refused"}, "--wait", "1s")
	g.secrets = filepath.Join(g.setupFile(), "not-a-folder")
	out, err := g.setupCommand().CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not a directory") {
		g.Errorf("a file in place of the folder: %v, %s", err, out)
	}
}

// refusesWhileServed: the database is in use and nobody said where its relay is.
func (g *ground) refusesWhileServed() {
	g.Helper()
	g.setup(0, nil)
	g.serve()
	g.addr = programtest.FreeAddr(g.T) // the configuration of the setup names another address
	g.setup(1, []string{"database", "in use", "--url"})
}
