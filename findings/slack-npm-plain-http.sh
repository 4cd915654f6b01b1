#!/bin/bash
# npm slack-webhook 1.0.0 and slack-notify 2.0.7: a webhook at http://HOST:PORT isn't reached.
#
# Servers that take Slack's messages often run inside a network without TLS. slack-webhook drops the scheme and the port
# and connects by TLS to port 443; slack-notify refuses the scheme when it sends. node-slack and @slack/webhook send.
# Seen: a connection to port 443, and ERR_INVALID_PROTOCOL
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts slack-webhook@1.0.0 slack-notify@2.0.7 >install.log

cat >try.mjs <<'END'
import http from 'node:http';
import net from 'node:net';
import {createRequire} from 'node:module';

const require = createRequire(import.meta.url);
let received = 0;
const server = http.createServer((request, response) => { received++; response.end('ok'); });
await new Promise(done => server.listen(0, '127.0.0.1', done));
const url = `http://127.0.0.1:${server.address().port}/services/T/B/x`;

const ports = [];
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...all) {
  ports.push(Number(all.flat()[0]?.port));
  return connect.apply(this, all);
};
const Slack = require('slack-webhook');
const first = await new Slack(url).send('hello').then(() => 'sent', error => error.code || error.message);
const second = await require('slack-notify')(url).send('hello').then(() => 'sent', error => error.code || error.message);
server.close();
console.log('slack-webhook 1.0.0 connects to ports', ports.join(', '), 'and ends with', first);
console.log('slack-notify 2.0.7 ends with', second, '- the server received', received);
process.exitCode = ports[0] === 443 && second === 'ERR_INVALID_PROTOCOL' && received === 0 ? 0 : 1;
END
node try.mjs
