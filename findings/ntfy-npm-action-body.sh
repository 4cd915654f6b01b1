#!/bin/bash
# npm ntfy 1.15.6: the body of an "http" action is sent without its name.
#
# ntfy reads the header X-Actions as "http, LABEL, URL, body=TEXT, …". The package writes method= and headers.NAME=, but
# appends the body bare, so a server takes it for a fourth positional value, which ntfy's format doesn't have.
# Seen: http, Restart, https://example.org/hook, method=PUT, headers.X-Id=7, now
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts ntfy@1.15.6 >install.log

cat >try.mjs <<'END'
import http from 'node:http';
import {publish} from 'ntfy';

let actions;
const server = http.createServer((request, response) => {
  actions = request.headers['x-actions'];
  response.setHeader('Content-Type', 'application/json');
  response.end('{"id":"1","time":1,"event":"message","topic":"t"}');
});
await new Promise(done => server.listen(0, '127.0.0.1', done));
await publish({
  server: `http://127.0.0.1:${server.address().port}`, topic: 't', message: 'down',
  actions: [{type: 'http', label: 'Restart', url: 'https://example.org/hook', method: 'PUT', headers: {'X-Id': '7'}, body: 'now'}],
});
server.close();
console.log('ntfy 1.15.6 sends X-Actions:', actions);
process.exitCode = actions.endsWith(', now') && !actions.includes('body=') ? 0 : 1;
END
node try.mjs
