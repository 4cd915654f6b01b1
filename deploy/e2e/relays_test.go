package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway/shared/programtest"
	"slipway/tools/harness"
)

// docker-compose.relays.yml delivers with either of two relays, which have one database.
func checkRelays(t *testing.T, s *stack) {
	s.makeNginx(t, "relays", "relay-balancer")
	s.makePostgres(t)
	s.change(t, "relays")
	s.compose(t, "", "up", "-d")
	waitAnswer(t, http.DefaultClient, "http://127.0.0.1:8081/")
	youRead := s.person(t)
	s.push(t, "localhost:5000/hello:relays")
	youRead(t, "hello:relays")
	token := strings.TrimSpace(harness.Read(t, s.volume("relay-secrets/_data/relay_token")))
	for _, gone := range []string{"slipway_relay_1", "slipway_relay-2_1"} {
		s.docker(t, "stop", gone)
		message := "sent without " + gone
		// For the five seconds in which nginx keeps an address it may ask the relay that stopped. It answers 504 then, and senders repeat.
		harness.Wait(t, func() error {
			resp, body := harness.Ask(t, nil, http.MethodPost, "http://127.0.0.1:8081/message", strings.NewReader(message), harness.Header("Authorization", "Bearer "+token))
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s is answered with %s %s", message, resp.Status, body)
			}
			return nil
		})
		youRead(t, message)
		s.docker(t, "start", gone)
		harness.Wait(t, func() error { return s.command("docker", "exec", gone, "relay", "health").Run() })
	}
}

var library = regexp.MustCompile(`=> (/lib/\S+)`)

// makePostgres gives the engine a look-alike of PostgreSQL, out of the one of this machine.
func (e *engine) makePostgres(t *testing.T) {
	t.Helper()
	root := programtest.Root(t)
	debian := filepath.Join(root, ".tools", "images", "bookworm")
	versions, _ := filepath.Glob("/usr/lib/postgresql/*")
	if len(versions) == 0 {
		t.Fatal("no PostgreSQL below /usr/lib/postgresql; `make tools` installs it")
	}
	version := filepath.Base(versions[0])
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": "postgres:x:70:70::/var/lib/postgresql:/bin/sh\n", "group": "postgres:x:70:\n"} {
		harness.Write(t, filepath.Join(dir, name), harness.Read(t, filepath.Join(debian, "etc", name))+text)
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	harness.Run(t, "install", "-d", "-o", "70", "-g", "70", "-m", "700", filepath.Join(dir, "data"))
	files := []string{
		"--transform=s,^passwd$,etc/passwd,", "--transform=s,^group$,etc/group,", "--transform=s,^data$,var/lib/postgresql/data,", "--transform=s,^postgres.sh$,usr/local/bin/postgres.sh,",
		"--exclude=./etc/passwd", "--exclude=./etc/group", "-C", debian, ".", "-C", dir, "passwd", "group", "data", "-C", filepath.Join(root, "deploy", "e2e", "testdata"), "postgres.sh",
		"-C", "/", "usr/lib/postgresql/" + version, "usr/share/postgresql/" + version,
	}
	for _, m := range library.FindAllStringSubmatch(harness.Run(t, "ldd", versions[0]+"/bin/postgres", versions[0]+"/bin/psql"), -1) {
		link := m[1]
		file, err := filepath.EvalSymlinks(link)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"usr" + link, strings.TrimPrefix(file, "/")} { // an archive holds a path once
			if _, err := os.Lstat(filepath.Join(debian, name)); err != nil && !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	e.importImage(t, load(t, "relays", overrides["relays"]).Services["postgres"].Image,
		"ENTRYPOINT [\"postgres.sh\"]\nENV PATH=/usr/lib/postgresql/"+version+"/bin:/usr/local/bin:"+debianPath+"\nVOLUME [\"/var/lib/postgresql/data\"]", files...)
}
