# What PushBits left, and its configuration as the page says to change it.
mkdir -p /etc/relay
sqlite3 /srv/pushbits.db <relay/internal/pushbits/testdata/pushbits.sql
cat >/etc/relay/config.yml <<'END'
http:
  listenaddress: ""
  port: 8080
  trustedproxies: []
database:
  dialect: sqlite3
  connection: /srv/relay.db
admin:
  name: admin
  password: correct horse
  matrixid: "@you:localhost"
matrix:
  homeserver: http://127.0.0.1:1
  username: "@bot:localhost"
  password: secret
formatting:
  coloredtitle: true
END
TOKEN=Ask6hyH03Af0tvH
