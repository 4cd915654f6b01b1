engine
# The registry looks at its users once a second.
docker() { [ "$1" != login ] || sleep 1.1; command docker "$@"; }
mkdir -p /etc/docker/registry/auth /etc/relay
export REGISTRY=localhost:5000 REGISTRY_USER=ci REGISTRY_PASSWORD=correct-horse RELAY_URL=http://localhost:8080 COMMIT=0123abc
printf 'version: 0.1\nstorage: inmemory\nauth: {htpasswd: {realm: r, path: /etc/docker/registry/auth/htpasswd}}\n' >/etc/docker/registry/config.yml
printf "http: {listenaddress: '127.0.0.1:8080'}\ndatabase: {connection: /var/lib/relay.db}\nmatrix: {homeserver: 'http://127.0.0.1:1', username: '@b:x', password: p}\nadmin: {password: administrator, matrixid: '@a:x'}\n" >/etc/relay/config.yml
echo x | registry htpasswd --password-stdin /etc/docker/registry/auth/htpasswd somebody
registry serve /etc/docker/registry/config.yml >"$work/registry.log" 2>&1 &
relay serve --config /etc/relay/config.yml >"$work/relay.log" 2>&1 &
await http://localhost:5000/ "$work/registry.log"
await http://localhost:8080/readyz "$work/relay.log"
RELAY_TOKEN=$(relay app create before --quiet --room '!x:x' --config /etc/relay/config.yml)
export RELAY_TOKEN
printf 'FROM busybox\nLABEL a=b\n' >Dockerfile
