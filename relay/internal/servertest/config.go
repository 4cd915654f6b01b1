package servertest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// writeConfig writes Synapse's configuration and returns the registration secret. Keys and secret of an earlier start are kept.
func writeConfig(dir string, o SynapseOptions) (secret string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	key := func() string { return "ed25519 a_slip " + base64.RawStdEncoding.EncodeToString(random(32)) + "\n" }
	if _, err := keep(filepath.Join(dir, "signing.key"), key); err != nil {
		return "", err
	}
	secret, err = keep(filepath.Join(dir, "registration.secret"), func() string { return hex.EncodeToString(random(16)) })
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := configTemplate.Execute(&b, map[string]any{"O": o, "Dir": dir, "Secret": secret}); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "log.yaml"), fmt.Appendf(nil, logConfig, filepath.Join(dir, "homeserver.log")), 0o600); err != nil {
		return "", err
	}
	return secret, os.WriteFile(filepath.Join(dir, "homeserver.yaml"), []byte(b.String()), 0o600)
}

// keep returns the content of the file, which it creates if it doesn't exist.
func keep(file string, make func() string) (string, error) {
	b, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(b), err
	}
	content := make()
	return content, os.WriteFile(file, []byte(content), 0o600)
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails, see its documentation
	return b
}

const logConfig = `version: 1
formatters: {plain: {format: '%%(asctime)s %%(levelname)s %%(name)s %%(message)s'}}
handlers: {file: {class: logging.FileHandler, formatter: plain, filename: %q}}
root: {level: WARNING, handlers: [file]}
disable_existing_loggers: false
`

// Passwords are hashed with few rounds, presence and previews are off: nothing
// here guards secrets, and a test wants its answers soon.
var configTemplate = template.Must(template.New("homeserver.yaml").Parse(`server_name: {{printf "%q" .O.Domain}}
public_baseurl: "http://127.0.0.1:{{.O.Port}}/"
listeners:
  - {port: {{.O.Port}}, bind_addresses: ["127.0.0.1"], type: http, tls: false, x_forwarded: true, resources: [{names: [client], compress: false}]}
database: {name: sqlite3, args: {database: {{printf "%q" (print .Dir "/homeserver.db")}}}}
log_config: {{printf "%q" (print .Dir "/log.yaml")}}
media_store_path: {{printf "%q" (print .Dir "/media")}}
signing_key_path: {{printf "%q" (print .Dir "/signing.key")}}
pid_file: {{printf "%q" (print .Dir "/homeserver.pid")}}
registration_shared_secret: {{printf "%q" .Secret}}
trusted_key_servers: []
report_stats: false
enable_registration: false
presence: {enabled: false}
url_preview_enabled: false
password_config: {bcrypt_rounds: 4}
max_upload_size: 10M
filter_timeline_limit: -1
{{- if not .O.DefaultRateLimits}}
rc_message: &lifted {per_second: 100000, burst_count: 100000}
rc_registration: *lifted
rc_login: {address: *lifted, account: *lifted, failed_attempts: *lifted}
rc_joins: {local: *lifted, remote: *lifted}
rc_joins_per_room: *lifted
rc_invites: {per_room: *lifted, per_user: *lifted, per_issuer: *lifted}
rc_room_creation: *lifted
rc_admin_redaction: *lifted
rc_media_create: *lifted
{{- end}}
`))
