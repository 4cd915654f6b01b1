package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/post"
	"slipway/shared/programtest"
)

// desk is where an operator sits: a configuration and what commands print.
type desk struct {
	*testing.T
	file, addr  string
	out, errout string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	for _, name := range []string{"RELAY_TOKEN", "RELAY_URL", "RELAY_CONFIG"} {
		t.Setenv(name, "")
	}
	t.Setenv("MATRIX_PASSWORD", "bot-secret")
	t.Setenv("ADMIN_PASSWORD", "admin-secret")
	d := &desk{T: t, addr: programtest.FreeAddr(t)}
	d.configure("relay.yml", "")
	return d
}

// configure writes the configuration; there is no homeserver.
func (d *desk) configure(name, more string) {
	d.Helper()
	dir := d.TempDir()
	if d.file != "" {
		dir = filepath.Dir(d.file)
	}
	d.file = filepath.Join(dir, name)
	text := fmt.Sprintf("http: {listenaddress: %q}\ndatabase: {dialect: sqlite, connection: %q}\n"+
		"matrix: {homeserver: \"http://127.0.0.1:1\", username: \"@bot:example.org\", password: \"${MATRIX_PASSWORD}\"}\n"+
		"admin: {password: \"${ADMIN_PASSWORD}\", matrixid: \"@me:example.org\"}\n%s", d.addr, filepath.Join(dir, "relay.db"), more)
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
}

// does runs a command and checks its exit code and that what it prints, and
// its complaint, hold the texts. A "%" in an argument stands for the file, "" for
// nothing.
func (d *desk) does(code int, line string, texts ...string) {
	d.Helper()
	args := strings.Fields(line)
	for i, a := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(a, "%", d.file), `""`, "")
	}
	var out, errout bytes.Buffer
	got := run(d.Context(), args, strings.NewReader("from stdin"), &out, &errout)
	d.out, d.errout = out.String(), errout.String()
	if got != code {
		d.Fatalf("relay %s: exit code %d, want %d\n%s%s", line, got, code, d.out, d.errout)
	}
	if (code != 0) != strings.Contains(d.errout, "relay: ") {
		d.Errorf("relay %s: exit code %d and %q on stderr", line, got, d.errout)
	}
	for _, text := range texts {
		if !strings.Contains(d.out+d.errout, text) {
			d.Errorf("relay %s does not say %q:\n%s%s", line, text, d.out, d.errout)
		}
	}
}

// serve runs the relay, with the configuration unless args say more, and returns
// how to end it, with its exit code.
func (d *desk) serve(args ...string) (stop func() int) {
	d.Helper()
	if args == nil {
		args = []string{"--config", d.file}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var out, errout bytes.Buffer // read when the relay has ended
	code := make(chan int, 1)
	go func() { code <- run(ctx, append([]string{"serve"}, args...), nil, &out, &errout) }()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", d.addr); err == nil {
			c.Close()
			return func() int {
				cancel()
				ended := <-code
				d.out, d.errout = out.String(), errout.String()
				return ended
			}
		}
	}
	cancel()
	<-code
	d.Fatalf("the relay does not listen:\n%s", errout.String())
	return nil
}

func TestConfigCommands(t *testing.T) {
	d := newDesk(t)
	d.does(2, "config check %", "unexpected argument", "a configuration is given with --config")
	d.does(0, "config check --config %", "the configuration is valid")
	d.does(0, "config show -c %", "MATRIX_PASSWORD", "***", "coloredtitle: true")
	if strings.Contains(d.out, "-secret") { // bot-secret, admin-secret
		t.Errorf("a secret is shown:\n%s", d.out)
	}
	d.configure("bad.yml", "securty: {checktoken: true}\nlogging: {level: loud}\n")
	d.does(1, "config check -c %", "securty", "logging.level")
	d.does(1, "serve --config %", "securty")
	d.does(1, "serve %", "securty")
	d.does(1, "serve --config % %", "securty")
	d.does(1, "serve --config /nowhere/relay.yml", "/nowhere/relay.yml")
	d.does(1, "serve /nowhere/relay.yml", "/nowhere/relay.yml")
	d.does(2, "serve a.yml -c b.yml", "two configurations are given, a.yml and --config b.yml: leave one out")
	t.Setenv("RELAY_CONFIG", d.file)
	d.does(2, `serve ""`, "the name of the configuration file is empty")
	for _, command := range []string{"serve", "config check", "config show"} {
		d.does(2, command+` --config ""`, "the name of the configuration file is empty")
	}
	d.does(1, "config check", "securty")
	d.does(1, "serve", "securty")
	d.does(1, "serve /nowhere/relay.yml", "/nowhere/relay.yml")
}

func TestOtherCommands(t *testing.T) {
	d := newDesk(t)
	d.does(0, "version", "relay slipway/relay dev")
	d.does(0, "--version", "relay slipway/relay dev")
	d.does(0, "--help", "serve", "doctor")
	d.does(2, "sevre", "unknown command", "did you mean serve?")
	d.does(2, "serve one two", `unexpected argument "two"`, "usage: relay serve")
	d.does(2, "send hello", "a token is required")
	d.does(2, `send --token A ""`, "nothing to send: give a MESSAGE, or text on stdin")
	d.does(2, "app create --config %", "NAME is missing; usage: relay app create NAME")
	d.does(2, "app set one --digset 1m --config %", "unknown flag: --digset (did you mean --digest?)")
	d.does(2, "app token create one --grace 1w --config %", `--grace: "1w" is not a duration such as 10s`)
	d.does(2, "migrate --to sqlite:a", "--from is missing; usage: relay migrate")
	for line, reason := range map[string]string{
		"send --retry 0 --token A --url http://127.0.0.1:1 hello": "cannot reach the relay at http://127.0.0.1:1: connection refused",
		"send --token A --url 127.0.0.1:8080 hello":               `"127.0.0.1:8080" is not the address of a relay, such as http://127.0.0.1:8080`,
		"app list --config % --url nowhere":                       `"nowhere" is not the address`,
		"health --config %":                                       "cannot reach the relay at http://" + d.addr + ": connection refused",
	} {
		d.does(1, line, reason)
		for _, raw := range []string{"dial tcp", "Post \"", "Get \"", "parse \""} {
			if strings.Contains(d.errout, raw) {
				t.Errorf("relay %s shows %s: %s", line, raw, d.errout)
			}
		}
	}
	d.does(1, "doctor", "name one with --config")
}

var tokenLine = regexp.MustCompile(`token (\S+) `)

// TestApplicationsWithoutRelay: applications can be managed while none runs.
func TestApplicationsWithoutRelay(t *testing.T) {
	d := newDesk(t)
	d.does(0, "app create one --room !one:example.org --config %", "application 1, one", "curl", "warning: The homeserver")
	d.does(0, "app create two --room #two:example.org --strict-compatibility -q --config %")
	if token := strings.TrimSpace(d.out); len(token) != 15 {
		t.Errorf("the strict token is %q", token)
	}
	d.does(3, "app create one --room !one:example.org --config %", "application of this name")
	d.does(3, "app create three --room nonsense --config %", "room")
	d.does(0, "app list --config %", "one", "!one:example.org", "#two:example.org")
	d.does(0, "app token create two --grace 1d --config %", "application 2, two", "the old token works until 20")
	d.does(0, "app token create two --config %", "the old token no longer works")
	d.does(0, "app token create 1 -q --config %")
	d.does(1, "app token create nobody --config %", `no application "nobody"`)
	d.does(0, "app secret create two --config %", "application two: secret set", "secret ", "(not shown again)")
	d.does(3, "app secret create two --secret-stdin --config %", "A secret has 16 to 256 characters") // "from stdin" has 10
	d.does(0, "app secret delete two --yes --config %", "application two: secret deleted")
	d.does(0, "app set two --name three --config %", "application two: changed", "name: three")
	d.does(3, "app set three --name one --config %", "application of this name")
	d.does(2, "app delete three --config %", "Delete application 2, three, with its history of 0 messages? Nobody can be asked here: give --yes")
	d.does(0, "app delete three --yes --config %", "application 2: deleted")
	d.does(1, "app delete three --yes --config %", `no application "three"`)
	d.does(0, "app list --config %", "one")
	if strings.Contains(d.out, "three") {
		t.Errorf("a deleted application is listed:\n%s", d.out)
	}
	d.does(0, "app create made --config %", "warning: The room does not exist yet: the bot creates it with the first message, or within 10 minutes after the homeserver responds again.")
	d.does(1, "doctor --config %", "WARN The relay does not run at http://"+d.addr+" yet: start it.", "ok   The database can be written to.", "BAD  The homeserver", "checks failed")
}

// TestUsers: users are managed from the command line, and their passwords work.
func TestUsers(t *testing.T) {
	d := newDesk(t)
	stop := d.serve()
	login := func(name, password string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.addr+"/application", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(name, password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s with %s: %d, want %d", name, password, resp.StatusCode, want)
		}
	}
	shown := func() string {
		t.Helper()
		m := regexp.MustCompile(`password (\S+) `).FindStringSubmatch(d.out)
		if m == nil {
			t.Fatalf("no password in %s", d.out)
		}
		return m[1]
	}
	d.does(0, "user create anna --matrix-id @anna:example.org --config %", "user 2, anna")
	first := shown()
	login("anna", first, 200)
	d.does(0, "user set anna --new-password --config %", "user anna: changed")
	login("anna", first, 401)
	login("anna", shown(), 200)
	d.does(0, "user set 2 --password-stdin --config %")
	login("anna", "from stdin", 200)
	d.does(0, "user set anna --name berta --admin --config %", "changed")
	d.does(0, "user list --config %", "berta", "true", "@anna:example.org")
	d.does(0, "user set berta --admin=false --config %")
	d.does(3, "user set berta --matrix-id nonsense --config %", "Matrix")
	d.does(2, "user set berta --config %", "nothing to change")
	d.does(3, "user delete admin --yes --config %", "last administrator")
	d.does(0, "app create berrys --room !b:example.org -q --config %")
	d.does(0, "app set berrys --owner berta --config %", "changed", "owner: berta")
	d.does(0, "app set berrys --heartbeat 90m --heartbeat-grace 0 --digest 5m0s --config %", "heartbeat: 1h30m", "heartbeat-grace: none", "digest: 5m")
	d.does(3, "app set berrys --heartbeat 5 --config %", "Field 'heartbeat' is \"5\"; it must be a duration with a unit, such as 5s, 5m or 5h.")
	d.does(3, "app set berrys --heartbeat 5s --config %", "Field 'heartbeat' is 5s; it must be 0, or from 1m to 744 hours.")
	d.does(0, "app set berrys --template-title {{.a}} --mention none --priority high --room !c:example.org --config %", "template-title: {{.a}}", "mention: none", "priority: 1", "room: !c:example.org")
	d.does(0, `app set berrys --template-title "" --config %`, "template-title: none")
	d.does(0, "app show berrys --config %", "owner: berta", "heartbeat: 1h30m")
	if strings.Count(d.out, "owner: ") != 1 {
		t.Errorf("the owner is not shown once:\n%s", d.out)
	}
	d.does(0, "app list --config %", "berrys  berta")
	d.does(0, "app list --json --config %", `"name": "berrys"`)
	d.does(1, "app set berrys --owner nobody --config %", `no user "nobody"`)
	d.does(2, "user delete berta --config %", "give --yes")
	d.does(0, "user delete berta --yes --config %", "user berta: deleted")
	d.does(1, "user delete berta --yes --config %", `no user "berta"`)
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestMessages: messages are followed and changed from the command line.
func TestMessages(t *testing.T) {
	d := newDesk(t)
	stop := d.serve()
	for _, name := range []string{"one", "two"} {
		d.does(0, "app create "+name+" --room !"+name+":example.org -q --config %")
		t.Setenv("RELAY_TOKEN", strings.TrimSpace(d.out))
		for _, text := range []string{"first", "second", "third"} {
			d.does(0, "send --url http://"+d.addr+" -t to-"+name+" "+text, "queued")
		}
	}
	d.does(0, "messages list --config %", "ID", "to-one first", "to-two third")
	d.does(0, "messages list --app two --search SECOND --since 1h --config %", "to-two second")
	if strings.Contains(d.out, "to-one") || strings.Contains(d.out, "third") {
		t.Errorf("the filter selects\n%s", d.out)
	}
	d.does(0, "messages list --until 2020-01-01 --config %")
	if strings.Contains(d.out, "to-") {
		t.Errorf("from before 2020:\n%s", d.out)
	}
	d.does(0, "messages show 2 --config %", "to-one", "second", "!one:example.org")
	d.does(0, "messages withdraw 1 2 --config %", "2 withdrawn")
	d.does(0, "messages withdraw 1 --config %", "1 withdrawn")
	d.does(0, "messages withdraw 1 --json --config %", `"done": 1`, `"status": "cancelled"`)
	d.does(0, "messages withdraw --app two --state queued,retry_wait,blocked --dry-run --json --config %", `"done": 0`, `"status_url"`, `"sent_at": null`)
	d.does(0, "messages withdraw --app two --state queued,retry_wait,blocked --dry-run --config %", "to-two first", "3 messages would be withdrawn; nothing was changed")
	d.does(2, "messages withdraw --app two --state queued,retry_wait,blocked --config %", "Withdraw messages: 3 messages? Nobody can be asked here: give --yes")
	d.does(0, "messages withdraw --app two --state queued,retry_wait,blocked --yes --json --config %", `"done": 3`)
	d.does(0, "messages list --state cancelled --app two --config %", "to-two first")
	d.does(0, "messages redeliver --state cancelled --yes --config %", "5 queued again")
	d.does(0, "messages redeliver 3 --config %", "1 queued again")
	d.does(2, "messages redeliver --config %", "name messages by their ids")
	d.does(3, "messages withdraw --state sent --yes --config %", "Name the states")
	d.does(2, "messages list --since yesterday --config %", `"yesterday" is not a time`)
	d.does(3, "messages list --state delivered --config %", `There is no state "delivered". The states are `+post.AllOf(post.States)+".")
	d.does(1, "messages show 99 --config %", "no such message")
	resp, err := http.Post("http://"+d.addr+"/message?token="+os.Getenv("RELAY_TOKEN"), "application/json", strings.NewReader(
		`{"message": "<b>bold</b> &amp; plain", "extras": {"client::display": {"contentType": "text/html"}}, "attachments": [{"filename": "log.txt", "mimetype": "text/plain", "base64": "aGVsbG8="}]}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	d.does(0, "messages list -n 1 --config %", "bold & plain")
	d.does(0, "messages show 7 --json --config %", `"content_type": "text/html"`)
	d.does(0, "messages show 7 --config %", "bold & plain", "log.txt (text/plain, 5 B)")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestSendDuringRestart: a message whose relay is away for a moment arrives, once.
func TestSendDuringRestart(t *testing.T) {
	d := newDesk(t)
	d.does(0, "app create one --room !one:example.org -q --config %")
	t.Setenv("RELAY_TOKEN", strings.TrimSpace(d.out))
	t.Setenv("RELAY_URL", "http://"+d.addr)
	var out programtest.Output
	sent := make(chan int, 1)
	go func() {
		sent <- run(context.Background(), []string{"send", "--idempotency-key", "k1", "hello"}, nil, &out, &out)
	}()
	for end := time.Now().Add(time.Minute); !strings.Contains(out.String(), "trying again for 30s") && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	stop := d.serve()
	if code := <-sent; code != 0 || !strings.Contains(out.String(), "trying again for 30s") || !strings.Contains(out.String(), "message 1 queued") {
		t.Errorf("sent while the relay was away: %d, %s", code, &out)
	}
	d.does(0, "send --idempotency-key k1 hello", "message 1 queued")
	d.does(3, "send --idempotency-key k1 another", "This idempotency key was used for another message")
	d.does(0, "send hello", "message 2 queued")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeTakesTheFileAlone(t *testing.T) {
	d := newDesk(t)
	if code := d.serve(d.file)(); code != 0 {
		t.Errorf("exit code %d\n%s", code, d.errout)
	}
}

// TestBesideRelay: the same commands ask the relay that runs, which needs no
// homeserver; a second one on its database is refused.
func TestBesideRelay(t *testing.T) {
	d := newDesk(t)
	stop := d.serve()
	d.does(0, "health --config %", "database green")
	d.does(0, "app create one --room !one:example.org --config %")
	token := tokenLine.FindStringSubmatch(d.out)
	if token == nil {
		t.Fatalf("no token in %s", d.out)
	}
	url := "http://" + d.addr
	d.does(0, "send --url "+url+" --token "+token[1]+" -p high -t title hello", "message 1 queued")
	t.Setenv("RELAY_URL", url)
	t.Setenv("RELAY_TOKEN", token[1])
	d.does(0, "send", "message 2 queued")
	d.does(4, "send --wait 50ms hello", "message 3 is stored but")
	d.does(3, "send -p 7 hello", "priority")
	d.does(1, "doctor --config %", "ok   The relay runs at http://"+d.addr+".", "BAD  The homeserver", "3 messages wait")
	t.Setenv("ADMIN_PASSWORD", "another password")
	d.does(3, "app list --config %", "password is wrong")
	t.Setenv("ADMIN_PASSWORD", "admin-secret")

	first, file := d.addr, d.file
	d.addr = "127.0.0.1:0"
	d.configure("second.yml", "")
	d.does(1, "serve --config %", "relay.db")

	// A command waits for a relay that has the database open and doesn't listen yet, but not forever.
	d.addr = programtest.FreeAddr(t)
	d.configure("third.yml", "")
	defer func(usual time.Duration) { startingTime = usual }(startingTime)
	startingTime = 0
	d.does(1, "app list --config %", "relay.db open but doesn't answer at http://"+d.addr, "--url")
	startingTime = time.Hour
	later := make(chan *httptest.Server)
	go func() {
		time.Sleep(200 * time.Millisecond)
		target, _ := neturl.Parse(url)
		front := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
		front.Listener.Close()
		front.Listener, _ = net.Listen("tcp", d.addr)
		front.Start()
		later <- front
	}()
	d.does(0, "app list --config %", "one")
	(<-later).Close()
	d.addr, d.file = first, file
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	d.does(1, "doctor --config %", "BAD  The relay does not run at http://"+d.addr+": nothing is delivered. Start it; its log says why it ended.", "3 messages wait")
}

// TestLogKeepsSecrets: no token, password or text of a message reaches a log.
func TestLogKeepsSecrets(t *testing.T) {
	d := newDesk(t)
	t.Setenv("RELAY_LOGGING_LEVEL", "debug")
	t.Setenv("RELAY_LOGGING_ACCESSLOG", "true")
	stop := d.serve()
	d.does(0, "app create one --room !one:example.org -q --config %")
	token := strings.TrimSpace(d.out)
	base := "http://" + d.addr
	send := func(path, body, header, value string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	const text = "very-private-text"
	send("/message?token="+token, `{"message":"`+text+`"}`, "X-A", "b")
	send("/message?token="+token+"&message="+text, "", "X-A", "b")
	send("/message", `{"message":"`+text+`","title":"`+text+`","priority":77}`, "Authorization", "Bearer "+token)
	send("/message", `{"message":"`+text+`","token":"wrong-token"}`, "X-Gotify-Key", token)
	send("/ui/login", "name=admin&password=wrong-password", "Content-Type", "application/x-www-form-urlencoded")
	d.does(1, "doctor --config %")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(d.out, "POST /message") || !strings.Contains(d.errout, "request refused") {
		t.Fatalf("the logs are not there:\n%s%s", d.out, d.errout)
	}
	for _, secret := range []string{token, text, "wrong-token", "wrong-password", "admin-secret", "bot-secret"} {
		if strings.Contains(d.out, secret) {
			t.Errorf("the access log holds %s:\n%s", secret, d.out)
		}
		if strings.Contains(d.errout, secret) {
			t.Errorf("the log holds %s:\n%s", secret, d.errout)
		}
	}
}

// TestOwnCertificate: the commands know the relay by its certificate, whatever
// name is in it.
func TestOwnCertificate(t *testing.T) {
	d := newDesk(t)
	use := func() {
		certificate, key := selfSigned(t, "relay.example.org")
		t.Setenv("RELAY_HTTP_CERTFILE", certificate)
		t.Setenv("RELAY_HTTP_KEYFILE", key)
	}
	use()
	stop := d.serve()
	d.does(0, "health --config %", "database green")
	d.does(0, "app list --config %")
	use()
	d.does(1, "health --config %", "certificate")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func selfSigned(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for file, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// TestPasswordFromConfiguration: a changed one takes effect at the next start.
func TestPasswordFromConfiguration(t *testing.T) {
	d := newDesk(t)
	d.does(0, "app list --config %")
	t.Setenv("ADMIN_PASSWORD", "changed-secret")
	stop := d.serve()
	d.does(0, "app list --config %")
	t.Setenv("ADMIN_PASSWORD", "admin-secret")
	d.does(3, "app list --config %", "password is wrong")
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
