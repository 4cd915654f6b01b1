cat >config.yml <<'END'
version: 0.1
storage: {filesystem: {rootdirectory: /srv/registry}}
notifications: {endpoints: [{name: receiver, url: "http://127.0.0.1:1/"}]}
END
registry serve config.yml >"$work/registry.log" 2>&1 &
await http://localhost:5000/v2/ "$work/registry.log"
