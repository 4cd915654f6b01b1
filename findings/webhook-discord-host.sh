#!/bin/bash
# npm webhook-discord 3.7.8: the address given is only read from; messages go to a fixed host.
#
# new Webhook(url) fetches url, takes the id and the token from the answer, and posts to
# discordapp.com/api/v7/webhooks/ID/TOKEN/slack. So it can't be pointed at a compatible server or a proxy with a path.
# Seen: GET of the local address, then POST to discordapp.com.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts webhook-discord@3.7.8 >install.log

cat >try.cjs <<'END'
const http = require('node:http');
const https = require('node:https');

const asked = [];
const server = http.createServer((request, response) => {
  asked.push(`${request.method} ${request.url}`);
  response.end(JSON.stringify({id: '1', token: 'abc'}));
});
// Nothing leaves this machine: the first request by HTTPS ends the trial.
https.request = options => {
  console.log('webhook-discord 3.7.8: local server saw', asked.join(', '));
  console.log('then it opened', options.method, options.host || options.hostname, options.path);
  process.exit((options.host || options.hostname) === 'discordapp.com' && asked[0] === 'GET /api/webhooks/1/abc' ? 0 : 1);
};
server.listen(0, '127.0.0.1', () => {
  const {Webhook} = require('webhook-discord');
  new Webhook(`http://127.0.0.1:${server.address().port}/api/webhooks/1/abc`).info('sender', 'hello');
});
setTimeout(() => process.exit(1), 20000);
END
node try.cjs
