package servertest

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// StartDendrite runs Dendrite, whose binary is given, on a port of 127.0.0.1 with the data that dir has of an earlier start, and
// returns once it answers. It has no rate limits and the domain localhost. The caller must call Stop.
func StartDendrite(ctx context.Context, binary, dir string, port int) (*Homeserver, error) {
	seed := func() string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "MATRIX PRIVATE KEY", Headers: map[string]string{"Key-ID": "ed25519:slip"}, Bytes: random(32)}))
	}
	if _, err := keep(filepath.Join(dir, "signing.pem"), seed); err != nil {
		return nil, err
	}
	secret, err := keep(filepath.Join(dir, "registration.secret"), func() string { return hex.EncodeToString(random(16)) })
	if err != nil {
		return nil, err
	}
	var config strings.Builder
	if err := dendriteConfig.Execute(&config, map[string]string{"Dir": dir, "Secret": secret}); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "dendrite.yaml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	s, err := newServer("http://"+address, "localhost", dir, secret)
	if err != nil {
		return nil, err
	}
	if s.proc, err = startProcess(dir, false, binary, "--config", file, "--http-bind-address", address); err != nil {
		return nil, err
	}
	return s, s.waitReady(ctx, 3*time.Minute)
}

var dendriteConfig = template.Must(template.New("dendrite.yaml").Parse(`version: 2
global:
  server_name: localhost
  private_key: {{.Dir}}/signing.pem
  disable_federation: true
  jetstream: {storage_path: {{.Dir}}/jetstream}
  presence: {enable_inbound: false, enable_outbound: false}
client_api:
  registration_disabled: true
  registration_shared_secret: {{.Secret}}
  rate_limiting: {enabled: false}
user_api: {bcrypt_cost: 4, account_database: {connection_string: "file:{{.Dir}}/user.db"}}
media_api: {base_path: {{.Dir}}/media, database: {connection_string: "file:{{.Dir}}/media.db"}}
federation_api: {database: {connection_string: "file:{{.Dir}}/federation.db"}}
key_server: {database: {connection_string: "file:{{.Dir}}/key.db"}}
mscs: {database: {connection_string: "file:{{.Dir}}/mscs.db"}}
relay_api: {database: {connection_string: "file:{{.Dir}}/relay.db"}}
room_server: {database: {connection_string: "file:{{.Dir}}/room.db"}}
sync_api: {database: {connection_string: "file:{{.Dir}}/sync.db"}}
logging: [{type: std, level: warn}]
`))
