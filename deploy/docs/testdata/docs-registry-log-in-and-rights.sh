mkdir -p /etc/docker/registry/auth /var/lib/registry
# The first configuration of the page, as it stands.
awk '/^```yaml/ {inside = 1; next} /^```/ {if (inside) exit} inside' docs/registry/log-in-and-rights.md >/etc/docker/registry/config.yml
