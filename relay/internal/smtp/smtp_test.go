package smtp

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
)

const room = "!room:example.org"

// world is a server over a real service.
type world struct {
	*testing.T
	service *service.Service
	hs      *relaytest.Homeserver
	server  *Server
	admin   account.Principal
	logged  *observer.ObservedLogs
	secrets []string
}

func newWorld(t *testing.T, change func(*Options), limits ...func(*service.Options)) *world {
	t.Helper()
	s, hs := relaytest.New(t, func(o *service.Options) {
		o.Limits = service.Limits{MaxAttachments: 1 << 20, MaxMessage: 10_000}
		for _, l := range limits {
			l(o)
		}
	})
	hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, Writable: true})
	admin, _ := relaytest.Administrator(s)
	core, logged := observer.New(zapcore.DebugLevel)
	o := Options{Service: s, Log: zap.New(core), Domain: "relay.test"}
	if change != nil {
		change(&o)
	}
	server, err := Listen(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, service: s, hs: hs, server: server, admin: admin, logged: logged}
	t.Cleanup(func() {
		if err := server.Close(10 * time.Second); err != nil {
			t.Error(err)
		}
		for _, e := range logged.All() {
			for _, secret := range w.secrets {
				if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, secret) {
					t.Errorf("a token is in the log: %s", line)
				}
			}
		}
	})
	return w
}

func (w *world) app(name string) account.IssuedToken {
	w.Helper()
	at := room
	a, err := w.service.CreateApplication(w.Context(), w.admin, account.ApplicationInput{Name: &name, Room: &at})
	if err != nil {
		w.Fatal(err)
	}
	w.secrets = append(w.secrets, a.Token)
	return a
}

// client is a connection that has said EHLO.
type client struct {
	*world
	conn net.Conn
	text *textproto.Conn
}

func (w *world) dial() *client {
	w.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", w.server.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	c := &client{w, conn, textproto.NewConn(conn)}
	c.want(220, "")
	return c
}

// want sends a command, unless it is empty, and checks the code of the answer.
func (c *client) want(code int, command string) string {
	c.Helper()
	if command != "" {
		if err := c.text.PrintfLine("%s", command); err != nil {
			c.Fatal(err)
		}
	}
	got, text, err := c.text.ReadResponse(0)
	if got != code {
		c.Errorf("%.40q: %d %s (%v), want %d", command, got, text, err, code)
	}
	return text
}

// mail sends a mail to recipients and checks the answer to it.
func (c *client) mail(code int, to, mail string) {
	c.Helper()
	c.want(250, "MAIL FROM:<a@b.example>")
	c.want(250, "RCPT TO:<"+to+">")
	c.want(354, "DATA")
	c.want(code, strings.ReplaceAll(mail, "\n", "\r\n")+"\r\n.")
}

// messages are what the service has accepted, newest first.
func (w *world) messages() (all []string) {
	w.Helper()
	page, err := w.service.Messages(w.Context(), w.admin, service.Filter{})
	if err != nil {
		w.Fatal(err)
	}
	for _, m := range page.Messages {
		names := ""
		for _, a := range m.Files() {
			names += " +" + a.Name
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s: %s (%s, %d, %s)%s", m.Title, m.Body, m.Source, m.Priority, m.ContentType, names)))
	}
	return all
}

func plainLogin(token string) string {
	return "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00anybody\x00"+token))
}

func TestMail(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.app("one"), w.app("two")
	c := w.dial()
	if text := c.want(250, "EHLO x"); !strings.Contains(text, "AUTH PLAIN LOGIN") || !strings.Contains(text, "SIZE ") || strings.Contains(text, "STARTTLS") {
		t.Errorf("EHLO: %s", text)
	}
	c.mail(250, one.Token+"@anything.example", "Subject: s\nMessage-ID: <1@x>\n\ntext")
	c.mail(250, "name+"+two.Token+"@anything", "X-Priority: 1\n\n..dot")
	c.want(235, plainLogin(one.Token))
	c.mail(250, "root@elsewhere.example", "Subject: s\nContent-Type: text/html\n\n<b>h</b>")
	c.mail(250, "root@elsewhere.example", "Subject: s\nMessage-ID: <1@x>\n\ntext") // once more
	c.mail(250, "root@elsewhere.example", "Subject: s\nMessage-ID: <1@x>\n\nother text")
	for range 2 {
		c.mail(250, "root@elsewhere.example", "Subject: s\nMessage-ID: <1@x>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\n\nother text") // on another day, twice
	}
	c.mail(250, "root@elsewhere.example", "Subject: only a subject\n\n")
	c.mail(250, "root@elsewhere.example", "Subject: f\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nsee\n--x\nContent-Type: text/plain; name=a.txt\n\nfile\n--x--")
	c.want(221, "QUIT")
	c = w.dial()
	c.want(250, "EHLO x")
	c.want(334, "AUTH LOGIN")
	c.want(334, base64.StdEncoding.EncodeToString([]byte("name")))
	c.want(235, base64.StdEncoding.EncodeToString([]byte(two.Token)))
	c.mail(250, "x@y", "\nby LOGIN")
	c = w.dial()
	c.want(250, "EHLO x")
	c.want(334, "AUTH LOGIN "+base64.StdEncoding.EncodeToString([]byte("name")))
	c.want(235, base64.StdEncoding.EncodeToString([]byte(two.Token)))
	want := []string{
		": by LOGIN (smtp, 0, text/plain)", "f: see (smtp, 0, text/plain) +a.txt", ": only a subject (smtp, 0, text/plain)",
		"s: other text (smtp, 0, text/plain)", "s: other text (smtp, 0, text/plain)", "s: <b>h</b> (smtp, 0, text/html)", ": .dot (smtp, 1, text/plain)", "s: text (smtp, 0, text/plain)",
	}
	if got := w.messages(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("messages:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// cron sends from root to root. Lines of a mail are left alone.
func TestMail_WithoutDomain(t *testing.T) {
	w := newWorld(t, nil)
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<>")
	c.want(250, "RSET")
	c.want(250, "MAIL FROM:root SIZE=10")
	c.want(250, "rcpt to: <"+a.Token+">")
	c.want(354, "DATA")
	c.want(250, "Subject: s\r\n\r\nRCPT TO:<root>\r\n"+strings.Repeat("long ", 1200)+"\r\n.")
	c.want(235, plainLogin(a.Token))
	c.want(250, "MAIL FROM:<root>")
	c.want(250, "RCPT TO:<root>")
	c.want(250, "BDAT 16\r\nRCPT TO:<root>")
	c.want(250, "BDAT 0 LAST")
	c.want(250, "MAIL FROM:<root@nas>")
	c.want(501, "RCPT TO:<>")
	c.want(501, "RCPT TO:<a b>")
	want := []string{": RCPT TO:<root> (smtp, 0, text/plain)", "s: RCPT TO:<root>\n" + strings.TrimSpace(strings.Repeat("long ", 1200)) + " (smtp, 0, text/plain)"}
	if got := w.messages(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("messages:\n%.300q", got)
	}
}

func TestMail_Refused(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.app("one"), w.app("two")
	c := w.dial()
	c.want(502, "MAIL FROM:<a@b>")
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<a@b>")
	c.want(550, "RCPT TO:<root@elsewhere.example>")
	c.want(550, "RCPT TO:<Awrong@relay.test>")
	c.want(502, "DATA")
	c.want(250, "RCPT TO:<"+one.Token+"@x>")
	c.want(250, "RCPT TO:<"+one.Token+"@y>")
	c.want(452, "RCPT TO:<"+two.Token+"@x>")
	c.want(354, "DATA")
	c.want(250, "\r\nmessage\r\n.")
	c.want(535, plainLogin("Awrong"))
	c.want(504, "AUTH CRAM-MD5")
	c.want(552, "MAIL FROM:<a@b> SIZE=100000000")
	c.mail(552, one.Token+"@x", "\n"+strings.Repeat("too long ", 2000))
	c.mail(552, one.Token+"@x", "Content-Type: image/png; name=a\n\n"+strings.Repeat("too long\n", 120_000))
	c.mail(552, one.Token+"@x", "Content-Type: image/png; name=a\n\n"+strings.Repeat("far too long\n", 200_000))
	c.mail(250, one.Token+"@x", "\nlast")
	if got := w.messages(); len(got) != 2 {
		t.Errorf("messages: %q", got)
	}
}

// The attachments of a mail that isn't accepted are removed at once.
func TestMail_Refused_KeepsNoAttachments(t *testing.T) {
	var db *store.Store
	w := newWorld(t, nil, func(o *service.Options) { db = o.Store })
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	files := func(text string) string {
		return "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: image/png; name=a.png\n\nfile\n--x\n\n" + text + "\n--x--"
	}
	c.mail(552, a.Token+"@x", files(strings.Repeat("too long ", 2000)))
	if _, err := db.Attachment(t.Context(), 1); !store.IsMissing(err) {
		t.Errorf("the first attachment is kept: %v", err)
	}
}

// A login is enough for attachments, too: no recipient names the application.
func TestMail_AttachmentByLogin(t *testing.T) {
	w := newWorld(t, nil)
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.want(235, plainLogin(a.Token))
	c.mail(250, "any@example.org", "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: image/png; name=a.png\n\nfile\n--x\n\ntext\n--x--")
	if got := w.messages(); len(got) != 1 {
		t.Errorf("messages: %q", got)
	}
}

// The client hangs up within a mail: nothing of it is a message.
func TestMail_CutShort(t *testing.T) {
	w := newWorld(t, nil)
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<a@b>")
	c.want(250, "RCPT TO:<"+a.Token+"@x>")
	c.want(354, "DATA")
	_, _ = io.WriteString(c.conn, "Subject: s\r\n\r\nhalf\r\n")
	_ = c.conn.Close()
	c = w.dial()
	c.want(250, "EHLO x")
	c.mail(250, a.Token+"@x", "\nwhole")
	if got := w.messages(); len(got) != 1 {
		t.Errorf("messages: %q", got)
	}
}

// A sender must repeat a mail that cannot be stored.
func TestMail_NotStored(t *testing.T) {
	w := newWorld(t, nil, func(o *service.Options) { o.Limits.RatePerMinute, o.Limits.Burst = 1, 1 })
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.mail(250, a.Token+"@x", "\nfirst")
	c.mail(451, a.Token+"@x", "\nover the rate")
}

// Guesses become slow, and then are not answered any more, and a valid token still is.
func TestMail_Guesses(t *testing.T) {
	w := newWorld(t, nil)
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<a@b>")
	last := ""
	for range 200 {
		_ = c.text.PrintfLine("RCPT TO:<Awrong@x>")
		code, text, _ := c.text.ReadResponse(0)
		if last = fmt.Sprint(code); code != 550 && code != 450 {
			t.Fatalf("%d %s", code, text)
		}
		if code == 450 {
			break
		}
	}
	if last != "450" {
		t.Errorf("the last guess is answered with %s", last)
	}
	c.want(250, "RCPT TO:<"+a.Token+"@x>")
}

// Tokens travel over TLS only, unless the settings or the client's address say otherwise.
func TestMail_TLS(t *testing.T) {
	certificate := selfSigned(t)
	w := newWorld(t, func(o *Options) {
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	})
	a := w.app("a")
	far := &session{s: w.server, host: "192.0.2.1"}
	c := w.dial()
	if text := c.want(250, "EHLO x"); !strings.Contains(text, "STARTTLS") {
		t.Errorf("EHLO: %s", text)
	}
	c.want(220, "STARTTLS")
	secure := tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is the test's
	c.text = textproto.NewConn(secure)
	if text := c.want(250, "EHLO x"); strings.Contains(text, "STARTTLS") {
		t.Errorf("EHLO over TLS: %s", text)
	}
	c.want(235, plainLogin(a.Token))
	c.mail(250, "x@y", "\nover TLS")
	c.want(250, "MAIL FROM:<root>")
	c.want(250, "RCPT TO:<root>")
	c.want(250, "RSET")
	far.conn = plainConn(t, w)
	if far.private() || far.AuthMechanisms() != nil || !errors.Is(far.Rcpt(a.Token+"@x", nil), errNeedsTLS) {
		t.Error("another machine may send its token in the clear")
	}
	if _, err := far.Auth("PLAIN"); !errors.Is(err, errNeedsTLS) {
		t.Errorf("AUTH: %v", err)
	}
	w.server.o.Plaintext = true
	if !far.private() {
		t.Error("the setting has no effect")
	}
	w = newWorld(t, func(o *Options) {
		o.Certificate, o.ImplicitTLS = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }, true
	})
	conn, err := tls.Dial("tcp", w.server.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec,noctx // as above
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a = w.app("a")
	c = &client{w, conn, textproto.NewConn(conn)}
	c.want(220, "")
	if text := c.want(250, "EHLO x"); strings.Contains(text, "STARTTLS") {
		t.Errorf("EHLO: %s", text)
	}
	c.want(235, plainLogin(a.Token))
	c.want(250, "MAIL FROM:<root>")
}

// Nothing that was said in the clear counts over TLS, and nothing that came ahead of the handshake is read as if it had come over TLS.
func TestMail_BeforeTLS(t *testing.T) {
	certificate := selfSigned(t)
	w := newWorld(t, func(o *Options) {
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	})
	a := w.app("a")
	c := w.dial()
	c.want(250, "EHLO x")
	c.want(235, plainLogin(a.Token))
	c.want(250, "MAIL FROM:<x@y>")
	c.want(220, "starttls")
	c.text = textproto.NewConn(tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true})) //nolint:gosec // the certificate is the test's
	c.want(502, "RCPT TO:<any@x>")
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<x@y>")
	c.want(550, "RCPT TO:<any@x>")
	c = w.dial()
	c.want(250, "EHLO x")
	c.want(421, "STARTTLS\r\nMAIL FROM:<x@y>")
}

// An address has its share of the connections, and a stop ends idle ones and waits for a mail.
func TestConnections(t *testing.T) {
	w := newWorld(t, nil)
	a := w.app("a")
	clients := []*client{}
	for range maxOneConns {
		clients = append(clients, w.dial())
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); !strings.HasPrefix(string(b), "421 ") {
		t.Errorf("one too many: %q, %v", b, err)
	}
	c := clients[0]
	c.want(250, "EHLO x")
	c.want(250, "MAIL FROM:<a@b>")
	c.want(250, "RCPT TO:<"+a.Token+"@x>")
	c.want(354, "DATA")
	time.Sleep(200 * time.Millisecond) // the server answers just before it counts the mail
	closed := make(chan error, 1)
	go func() { closed <- w.server.Close(time.Minute) }()
	clients[1].want(421, "")
	c.want(250, "\r\nto the end\r\n.")
	c.want(421, "")
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if m := w.messages(); len(m) != 1 {
		t.Errorf("messages: %q", m)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"relay.test"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// plainConn is a connection of the server without TLS.
func plainConn(t *testing.T, w *world) *smtp.Conn {
	t.Helper()
	w.dial()
	var found *smtp.Conn
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		found = c
		return nil, io.EOF
	}))
	here, there := net.Pipe()
	go func() { _ = server.Serve(&once{conn: there}) }()
	r := bufio.NewReader(here)
	_, _ = r.ReadString('\n')
	_, _ = io.WriteString(here, "EHLO x\r\n")
	_, _ = r.ReadString('\n')
	t.Cleanup(func() { _ = here.Close(); _ = server.Close() })
	return found
}

// once is a listener with one connection.
type once struct {
	conn net.Conn
	done bool
}

func (o *once) Accept() (net.Conn, error) {
	if o.done {
		return nil, net.ErrClosed
	}
	o.done = true
	return o.conn, nil
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

// A login counts for the mail that is under way as well.
func TestMail_LoginAfterSender(t *testing.T) {
	w := newWorld(t, nil)
	c := w.dial()
	c.want(250, "EHLO client")
	c.want(250, "MAIL FROM:<a@b>")
	c.want(235, plainLogin(w.app("a").Token))
	c.want(250, "RCPT TO:<any@b>")
	c.want(354, "DATA")
	c.want(250, "Subject: s\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\ntext\r\n--x\r\nContent-Type: image/png\r\n\r\nfile\r\n--x--\r\n.")
	if got := w.messages(); len(got) != 1 || !strings.Contains(got[0], "text") {
		t.Errorf("%q", got)
	}
}

// A subject over the limit is cut: programs that send mails can't make theirs shorter.
func TestMail_LongSubject(t *testing.T) {
	w := newWorld(t, nil, func(o *service.Options) { o.Limits.MaxTitle = 10 })
	c := w.dial()
	c.want(250, "EHLO client")
	c.mail(250, w.app("a").Token+"@relay.test", "Subject: Größe von /var überschritten\n\ntext")
	if got := w.messages(); len(got) != 1 || got[0] != "Größe…: text (smtp, 0, text/plain)" {
		t.Errorf("%q", got)
	}
}
