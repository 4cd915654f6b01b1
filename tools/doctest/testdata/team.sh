# The image of the registry, an authority in place of Let's Encrypt, and a registry in place of Docker Hub. What asks for a
# password is answered.
engine --bip 172.17.0.1/16
echo 127.0.0.1 registry.example.org >>/etc/hosts

# The last stage of the Dockerfile.
mkdir "$work/rootfs"
(cd "$work/rootfs" && eval "$(sed -n '/^RUN mkdir -p bin/,/^$/s/^RUN //p; /^ &&/p' "$work/slipway/registry/Dockerfile")")
cp registry/config.image.yml "$work/rootfs/etc/distribution/config.yml"
cp -L "$work/bin/registry" "$work/rootfs/bin"
tar -C "$work/rootfs" -c . | docker import -c "$(sed -n '/^ENV PATH=\/bin/,/^CMD/p' registry/Dockerfile)" - slipway/registry >/dev/null

cert=$work/authority.pem key=$work/authority-key.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$key" -out "$cert" -days 2 -subj /CN=authority -addext subjectAltName=IP:172.17.0.1 2>/dev/null
cat >"$work/pebble.json" <<EOF
{"pebble": {"listenAddress": "172.17.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "certificate": "$cert", "privateKey": "$key",
"httpPort": 1, "tlsPort": 443, "profiles": {"default": {"description": "of a test", "validityPeriod": 864000}}}}
EOF
pebble-challtestsrv -dnsserver 127.0.0.1:8053 -management 127.0.0.1:8055 -http01 "" -https01 "" -doh "" -tlsalpn01 "" -defaultIPv6 "" -defaultIPv4 172.17.0.1 >"$work/names.log" 2>&1 &
PEBBLE_VA_NOSLEEP=1 pebble -config "$work/pebble.json" -dnsserver 127.0.0.1:8053 >"$work/pebble.log" 2>&1 &
curl -fsSk --retry 60 --retry-connrefused --retry-delay 1 -o "$work/root.pem" https://127.0.0.1:15000/roots/0
mkdir -p /etc/docker/certs.d/registry.example.org
cp "$work/root.pem" /etc/docker/certs.d/registry.example.org/ca.crt
cat "$cert" "$work/root.pem" >"$work/trusted.pem"
chmod 644 "$work/trusted.pem"

docker run -d -p 6000:5000 slipway/registry >/dev/null
await http://127.0.0.1:6000/v2/
docker tag busybox 127.0.0.1:6000/library/alpine:3.22
docker push -q 127.0.0.1:6000/library/alpine:3.22

mkdir -p /srv/registry
sed -n '/^```yaml/,/^```/{/^```/d;p}' docs/registry/team.md |
	sed 's#https://registry-1.docker.io#http://172.17.0.1:6000#; s#you@example.org#&, directoryurl: "https://172.17.0.1:14000/dir"#' >/srv/registry/config.yml

docker() {
	case "$1 $2" in
	"pull busybox") ;;
	"login registry.example.org") echo "another password" | command docker "$@" --password-stdin ;;
	"run -d") shift 2 && command docker run -d -e SSL_CERT_FILE=/trusted.pem -v "$work/trusted.pem:/trusted.pem:ro" "$@" ;;
	*) command docker "$@" ;;
	esac
}
curl() { command curl --retry 60 --retry-all-errors --retry-delay 1 --cacert "$work/root.pem" "${@/#alice/alice:a long password}"; }
