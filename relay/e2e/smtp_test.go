package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// TestMail: emails sent by swaks and curl, by login and by address, plain and over TLS, are in the room once, although the relay is
// killed between accepting and delivering them; nothing is relayed.
func TestMail(t *testing.T) {
	s := newSite(t)
	addr := programtest.FreeAddr(t)
	certificate, key := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	out, err := exec.CommandContext(s.ctx, programtest.Tool(t, "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
		"-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1").CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	s.env = []string{"RELAY_SMTP_LISTENADDRESS=" + addr, "RELAY_SMTP_DOMAIN=relay.test"}
	s.start()
	a := s.application("mail", "")
	file := filepath.Join(s.dir, "notes.txt")
	s.must(os.WriteFile(file, []byte("the notes"), 0o600))
	swaks := func(args ...string) (string, error) {
		out, err := exec.CommandContext(s.ctx, programtest.Tool(t, "swaks"), append([]string{"--server", addr, "--from", "nas@example.org"}, args...)...).CombinedOutput()
		return string(out), err
	}
	login := []string{"--to", "any@example.org", "--auth-user", "any", "--auth-password", a.token}
	for body, args := range map[string][]string{
		"by PLAIN":   append(login, "--auth", "PLAIN"),
		"by LOGIN":   append(login, "--auth", "LOGIN", "--header", "Subject: =?utf-8?q?T=C3=BCr?="),
		"by address": {"--to", a.token + "@anywhere.example"},
		"with file":  append(login, "--auth", "PLAIN", "--attach-type", "text/plain", "--attach-name", "notes.txt", "--attach", "@"+file),
		"as HTML":    append(login, "--auth", "PLAIN", "--header", "Content-Type: text/html", "--add-header", "MIME-Version: 1.0"),
	} {
		s.proxy.Script(servertest.Rule{Path: "/send/", Fault: servertest.HangAfter()})
		if out, err := swaks(append(args, "--body", "sent "+body)...); err != nil {
			t.Errorf("%s: %v\n%s", body, err, strings.ReplaceAll(out, a.token, "TOKEN"))
			continue
		}
		s.kill()
		s.proxy.Script()
		s.start()
		s.eventually(body+" is in the room", func() bool { return s.count(a.room, "sent "+body) > 0 })
		if n := s.count(a.room, "sent "+body); n != 1 {
			t.Errorf("%s: %d messages", body, n)
		}
	}
	s.eventually("the file is in the room", func() bool { return s.count(a.room, "notes.txt") == 1 })
	for want, args := range map[string][]string{
		"550": {"--to", "root@example.org"},
		"535": {"--to", "root@example.org", "--auth", "PLAIN", "--auth-user", "any", "--auth-password", "Awrong"},
	} {
		if out, err := swaks(args...); err == nil || !strings.Contains(out, "<** "+want) {
			t.Errorf("want %s: %v\n%s", want, err, out)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the relay ends with %d", code)
	}
	s.env = append(s.env, "RELAY_HTTP_CERTFILE="+certificate, "RELAY_HTTP_KEYFILE="+key)
	s.launch()
	mail := filepath.Join(s.dir, "mail")
	s.must(os.WriteFile(mail, []byte("Subject: curl\r\nMessage-ID: <1@curl>\r\n\r\nsent by curl over TLS\r\n"), 0o600))
	sendOver := func(args ...string) bool {
		args = append([]string{"-sS", "--ssl-reqd", "--cacert", certificate, "smtp://" + addr, "--mail-from", "nas@example.org", "--mail-rcpt", "any@example.org", "-T", mail}, args...)
		out, err := exec.CommandContext(s.ctx, programtest.Tool(t, "curl"), args...).CombinedOutput()
		if err != nil {
			t.Logf("curl: %v %s", err, out)
		}
		return err == nil
	}
	s.eventually("curl sends over TLS", func() bool { return sendOver("--user", "any:"+a.token) })
	if !sendOver("--user", "any:"+a.token, "--login-options", "AUTH=LOGIN") { // the same mail again
		t.Error("curl's second mail is refused")
	}
	s.eventually("curl's mail is in the room", func() bool { return s.count(a.room, "sent by curl over TLS") > 0 })
	if n := s.count(a.room, "sent by curl over TLS"); n != 1 {
		t.Errorf("the same mail is %d messages", n)
	}
	if log := s.log(); strings.Contains(log, a.token) {
		t.Error("the token is in the log")
	}
}
