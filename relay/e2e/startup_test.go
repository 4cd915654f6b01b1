package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/shared/programtest"
)

const nobody = 65532 // whom the image's relay runs as

// TestStartSaysWhatIsWrong runs the relay, as its image does, where something keeps
// it from starting: one sentence has the cause and the remedy.
func TestStartSaysWhatIsWrong(t *testing.T) {
	if os.Geteuid() != 0 {
		programtest.Skip(t, "only root can make files that belong to somebody else")
	}
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		name, config string // more lines of the configuration; %s is the folder
		prepare      func(p *place)
		args         []string
		says         []string
	}{
		{name: "port in use", config: "http: {listenaddress: " + l.Addr().String() + "}", says: []string{"http.listenaddress: " + l.Addr().String() + " is in use by another program: stop that one, or choose another address"}},
		{name: "no such address", config: "http: {listenaddress: \"192.0.2.1:8080\"}", says: []string{"http.listenaddress: 192.0.2.1:8080 is not an address of this machine"}},
		{name: "metrics on a port in use", config: "metrics: {listenaddress: " + l.Addr().String() + "}", says: []string{"metrics.listenaddress: " + l.Addr().String() + " is in use"}},
		{name: "missing secret", config: "admin: {password_file: %s/nothing, matrixid: \"@you:localhost\"}", says: []string{"admin.password_file: cannot be read: ", "/nothing does not exist: make or mount it, or name another"}},
		{
			name: "somebody else's secret", config: "admin: {password_file: %s/secret, matrixid: \"@you:localhost\"}",
			prepare: func(p *place) { p.write("secret", "a secret", 0o600, 0) }, says: []string{"/secret belongs to uid 0 (mode 0600), and this runs as uid 65532, which may not use it: chown 65532:65532 "},
		},
		{
			name: "empty secret", config: "admin: {password_file: %s/secret, matrixid: \"@you:localhost\"}",
			prepare: func(p *place) { p.write("secret", "\n", 0o600, nobody) }, says: []string{"admin.password_file: ", "/secret is empty"},
		},
		{name: "volume of root", prepare: func(p *place) { p.own("data", 0o755, 0) }, says: []string{"/data belongs to uid 0 (mode 0755), and this runs as uid 65532, which may not use it: chown -R 65532:65532 "}},
		{name: "volume that is not there", prepare: func(p *place) { p.must(os.Remove(filepath.Join(p.dir, "data"))) }, says: []string{"/data does not exist, and uid 65532, which this runs as, cannot make it in ", "mkdir -p ", " && chown 65532:65532 ", "/data, or mount a volume there"}},
		{name: "database of root", prepare: func(p *place) { p.write("data/relay.db", "", 0o600, 0) }, says: []string{"/data/relay.db belongs to uid 0 (mode 0600)", "chown 65532:65532 "}},
		{name: "database that may not be written", prepare: func(p *place) { p.write("data/relay.db", "", 0o400, nobody) }, says: []string{"/data/relay.db has mode 0400, which keeps its owner, uid 65532, from using it: chmod u+w "}},
		{name: "log of root", prepare: func(p *place) {
			p.write("data/relay.db", "", 0o600, nobody)
			p.write("data/relay.db-wal", "", 0o600, 0)
		}, says: []string{"/data/relay.db-wal belongs to uid 0 (mode 0600)"}},
		{name: "lock of root", prepare: func(p *place) { p.write("data/relay.db.lock", "", 0o600, 0) }, says: []string{"/data/relay.db.lock belongs to uid 0 (mode 0600)"}},
		{name: "no database", prepare: func(p *place) { p.write("data/relay.db", strings.Repeat("text ", 1000), 0o600, nobody) }, says: []string{"/data/relay.db", "not a database"}},
		{name: "configuration of root", prepare: func(p *place) { p.own("relay.yml", 0o600, 0) }, says: []string{"relay.yml belongs to uid 0 (mode 0600)"}},
		{name: "secrets in a folder of root", prepare: func(p *place) { p.own(".", 0o755, 0) }, args: []string{"setup", "--secrets", "%s/secrets"}, says: []string{"/secrets does not exist, and uid 65532", "mkdir -p "}},
		{name: "doctor on a volume of root", prepare: func(p *place) { p.own("data", 0o755, 0) }, args: []string{"doctor"}, says: []string{"/data belongs to uid 0 (mode 0755)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, tt.config)
			if tt.prepare != nil {
				tt.prepare(p)
			}
			out := p.fails(tt.args...)
			for _, text := range tt.says {
				if !strings.Contains(out, text) {
					t.Errorf("the relay does not say %q:\n%s", text, out)
				}
			}
			if lines := strings.Split(strings.TrimSpace(out), "\n"); !strings.HasPrefix(lines[len(lines)-1], "relay: ") {
				t.Errorf("the last line is not the sentence:\n%s", out)
			}
		})
	}
}

// place is a folder with a configuration that uid 65532 may use.
type place struct {
	*testing.T
	dir, binary string
}

func newPlace(t *testing.T, more string) *place {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "relay-start-") // which everybody may enter, unlike that of the test
	p := &place{T: t, dir: dir}
	p.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p.own(".", 0o755, 0)
	p.must(os.Mkdir(filepath.Join(dir, "data"), 0o700))
	p.own("data", 0o700, nobody)
	sections := map[string]string{
		"http": `http: {listenaddress: "127.0.0.1:0"}`, "database": fmt.Sprintf("database: {connection: %q}", filepath.Join(dir, "data", "relay.db")),
		"matrix": `matrix: {homeserver: "http://127.0.0.1:1", username: "@relay:localhost", password: one}`,
		"admin":  `admin: {password: two-two-two, matrixid: "@you:localhost"}`,
	}
	if name, _, ok := strings.Cut(more, ":"); ok {
		sections[name] = strings.ReplaceAll(more, "%s", dir)
	}
	var text strings.Builder
	for _, s := range sections {
		text.WriteString(s + "\n")
	}
	p.write("relay.yml", text.String(), 0o600, nobody)
	// A link, not a copy: a process that another test starts while a copy is written
	// holds the copy open for a moment, and then the kernel refuses to run it.
	p.binary = filepath.Join(dir, "relay")
	p.must(os.Link(relayBinary, p.binary))
	return p
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *place) write(name, text string, mode os.FileMode, owner int) {
	p.Helper()
	p.must(os.WriteFile(filepath.Join(p.dir, name), []byte(text), mode))
	p.own(name, mode, owner)
}

func (p *place) own(name string, mode os.FileMode, owner int) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	p.must(os.Chmod(path, mode))
	p.must(os.Chown(path, owner, owner))
}

// fails runs the relay, which has to end with an error soon, and returns what it
// printed.
func (p *place) fails(args ...string) string {
	p.Helper()
	if len(args) == 0 {
		args = []string{"serve"}
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "%s", p.dir)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.binary, append(args, "--config", filepath.Join(p.dir, "relay.yml"))...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 {
		p.Fatalf("relay %v ends with %v, want exit code 1:\n%s", args, err, out)
	}
	return string(out)
}
