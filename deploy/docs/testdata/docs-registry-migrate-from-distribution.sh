# A directory that distribution 2.8 wrote, with a tag and a history of it, and
# distribution stopped.
mkdir -p /etc/docker/registry /var/lib/registry
cat >/etc/docker/registry/config.yml <<'END'
version: 0.1
log:
  fields:
    service: registry
storage:
  cache:
    blobdescriptor: inmemory
  filesystem:
    rootdirectory: /var/lib/registry
  delete:
    enabled: true
http:
  addr: :5000
  headers:
    X-Content-Type-Options: [nosniff]
health:
  storagedriver:
    enabled: true
    interval: 10s
    threshold: 3
END
docker-registry serve /etc/docker/registry/config.yml >"$work/old.log" 2>&1 &
old=$!
await http://localhost:5000/v2/ "$work/old.log"
for i in 1 2; do
	head -c 100000 /dev/urandom >"$work/layer"
	tar -C "$work" -cf "$work/layer.tar" layer
	crane append --insecure -f "$work/layer.tar" -t localhost:5000/team/app:v1 >/dev/null 2>&1
done
kill $old
wait $old || true
