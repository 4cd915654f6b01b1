package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"slipway/relay/internal/servertest"
	"slipway/shared/programtest"
)

// fleet is several relays on one PostgreSQL database, with nginx in front. The site's requests go through nginx.
type fleet struct {
	*site
	pg        *servertest.Postgres
	database  string
	dsn       string // how the relays reach it
	pickleKey string // "" for none
	ownerID   string // Matrix ID of the administrator; "" for nobody's
	relays    []*member
}

// member is one relay of a fleet.
type member struct {
	f     *fleet
	addr  string
	dir   string
	proc  *exec.Cmd
	ended chan struct{}
}

func newFleet(t *testing.T, upstream string, n int) *fleet {
	t.Helper()
	return fleetOn(newSiteAt(t, upstream), n, servertest.SharedPostgres)
}

// newFleetOfItsOwn is newFleet with a server that the test may stop and kill.
func newFleetOfItsOwn(t *testing.T, upstream string, n int) *fleet {
	t.Helper()
	return fleetOn(newSiteAt(t, upstream), n, func(ctx context.Context) (*servertest.Postgres, error) {
		pg, err := servertest.StartPostgres(ctx, servertest.PostgresOptions{Durable: true})
		if err == nil {
			t.Cleanup(pg.Remove)
		}
		return pg, err
	})
}

func fleetOn(s *site, n int, server func(context.Context) (*servertest.Postgres, error)) *fleet {
	s.Helper()
	f, t := &fleet{site: s}, s.T
	var err error
	f.pg, err = server(f.ctx)
	f.must(err)
	f.database, err = f.pg.NewDatabase(f.ctx)
	f.must(err)
	f.dsn = f.pg.DSN(f.database)
	for i := range n {
		m := &member{f: f, addr: programtest.FreeAddr(t), dir: filepath.Join(f.dir, fmt.Sprint("relay", i))}
		f.must(os.Mkdir(m.dir, 0o700))
		f.relays = append(f.relays, m)
		t.Cleanup(func() {
			m.kill()
			if t.Failed() {
				log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
				t.Logf("the log of the relay at %s:\n%s", m.addr, log[max(0, len(log)-4000):])
			}
		})
	}
	f.startNginx()
	return f
}

// configure writes the configuration and returns its path.
func (m *member) configure() string {
	s := m.f.site
	file := filepath.Join(m.dir, "relay.yml")
	text := fmt.Sprintf(`http:
  listenaddress: %q
  trustedproxies: [127.0.0.1]
database:
  dialect: postgres
  connection: %q
matrix:
  homeserver: %q
  username: %q
  password: ${MATRIX_PASSWORD}
  timeout: 1m
  encrypt_new_rooms: false # see site.encryptNew
  pickle_key: %q
admin:
  name: admin
  password: ${ADMIN_PASSWORD}
  matrixid: %q
logging:
  level: warn
`, m.addr, m.f.dsn, s.proxy.URL, s.botID, m.f.pickleKey, cmp.Or(m.f.ownerID, "@owner:localhost"))
	s.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// launch runs the relay without waiting until it answers.
func (m *member) launch() {
	s := m.f.site
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	defer log.Close()
	cmd := s.command("serve", "--config", m.configure())
	cmd.Stdout, cmd.Stderr = log, log
	s.must(cmd.Start())
	m.proc, m.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait() // its exit is checked where it matters
		close(ended)
	}(m.ended)
}

func (m *member) start() {
	m.launch()
	m.f.within(3*time.Minute, "the relay answers", func() bool { return m.status("/livez") == http.StatusOK })
}

// status is what the relay itself answers to a GET; 0 without an answer.
func (m *member) status(path string) int {
	req, err := http.NewRequestWithContext(m.f.ctx, http.MethodGet, "http://"+m.addr+path, http.NoBody)
	m.f.must(err)
	asAdmin(req)
	resp, err := m.f.http.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// metrics are those of the relay itself, as Prometheus reads them.
func (m *member) metrics() string {
	req, err := http.NewRequestWithContext(m.f.ctx, http.MethodGet, "http://"+m.addr+"/metrics", http.NoBody)
	m.f.must(err)
	resp, err := m.f.http.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	m.f.must(err)
	return string(text)
}

func (m *member) signal(s os.Signal) { m.f.must(m.proc.Process.Signal(s)) }

func (m *member) kill() {
	if m.proc == nil {
		return
	}
	_ = m.proc.Process.Kill() // it may have ended, or be frozen
	<-m.ended
	m.proc = nil
}

// deliverer is the relay that holds the lease; nil if none does.
func (f *fleet) deliverer() *member {
	ctx, cancel := context.WithTimeout(f.ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, f.dsn)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close(ctx) }()
	var holder string
	if conn.QueryRow(ctx, `SELECT holder FROM lease WHERE name = 'delivery' AND expires_at > clock_timestamp()`).Scan(&holder) != nil {
		return nil
	}
	for _, m := range f.relays {
		if strings.HasSuffix(holder, m.addr[strings.LastIndexByte(m.addr, ':'):]) {
			return m
		}
	}
	return nil
}

// delivers waits until a relay delivers, other than one, and returns it.
func (f *fleet) delivers(other *member) (m *member) {
	f.Helper()
	f.within(3*time.Minute, "another relay delivers", func() bool {
		m = f.deliverer()
		return m != nil && m != other
	})
	return m
}

// proxied is what nginx does with a request, in the file that docker-compose.relays.yml mounts.
var proxied = regexp.MustCompile(`(?s)location / \{(.*?)\n\t\}`)

// startNginx leads the site's requests to the relays in turn, by the configuration of docker-compose.relays.yml with other
// addresses. A sender repeats what a relay does not answer in time, which is shorter here.
func (f *fleet) startNginx() {
	dir, addr := filepath.Join(f.dir, "nginx"), programtest.FreeAddr(f.T)
	f.must(os.Mkdir(dir, 0o755))
	shipped, err := os.ReadFile(filepath.Join(programtest.Root(f.T), "deploy", "compose", "relays.conf"))
	f.must(err)
	var servers strings.Builder
	for _, m := range f.relays {
		fmt.Fprintf(&servers, "\tserver %s max_fails=0;\n", m.addr) // each is tried, whatever it did before
	}
	relays := strings.NewReplacer(
		"resolver 127.0.0.11 valid=5s ipv6=off;\n", "upstream relays {\n"+servers.String()+"}\n",
		"relays:8080", "relays",
		"listen 80;", "listen "+addr+";",
	).Replace(string(shipped))
	relays = proxied.ReplaceAllString(relays, "$0\n\tlocation = /message { proxy_read_timeout 4s;$1\n\t}")
	for _, part := range []string{servers.String(), "listen " + addr, "location = /message"} {
		if !strings.Contains(relays, part) {
			f.Fatalf("deploy/compose/relays.conf has no place for %q", part)
		}
	}
	conf := `daemon off; pid nginx.pid; error_log stderr warn; worker_processes 1;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
` + relays + "}\n"
	f.must(os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644))
	if os.Geteuid() == 0 { // its workers run as another user
		f.must(os.Chmod(f.dir, 0o755))
	}
	programtest.Start(f.T, exec.CommandContext(f.ctx, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf")), "http://"+addr)
	f.url = "http://" + addr
}
