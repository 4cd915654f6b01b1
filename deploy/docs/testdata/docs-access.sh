mkdir -p /etc/docker/registry/auth /var/lib/registry
cat >/etc/docker/registry/config.yml <<'END'
version: 0.1
auth:
  htpasswd: {path: /etc/docker/registry/auth/htpasswd}
  service: builtin
access:
  groups:
    owners: [alice, bob]
  rules:
    - {who: [anyone], repositories: ["**"], allow: [pull, list]}
    - {who: ["robot:ci-web"], repositories: ["web/**"], allow: [push, tag-move]}
    - {who: ["robot:ci-tools"], repositories: ["tools/**"], allow: [push, tag-move]}
    - {who: ["group:owners"], repositories: ["**"], allow: [delete]}
storage: {filesystem: {rootdirectory: /var/lib/registry}, delete: {enabled: true}}
END
