#!/bin/bash
# npm @sigstore/oci 0.7.2: with credentials it can't attach to an image of a registry that asks for none.
#
# It signs in by beginning an upload without credentials, and takes the answer 200 for "already signed in". A registry that needs no
# login answers 202, as the specification says, so a challenge is looked for in that answer. The upload is left behind.
# Seen: POST of an upload, 202, then the error "Invalid challenge: ".
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @sigstore/oci@0.7.2 >install.log

cat >try.cjs <<'END'
const http = require('node:http');
const {attachArtifactToImage} = require('@sigstore/oci');

const asked = [];
const server = http.createServer((request, response) => {
  asked.push(`${request.method} ${request.url}`);
  response.writeHead(202, {Location: '/v2/app/blobs/uploads/1', 'Docker-Upload-UUID': '1'});
  response.end();
});
server.listen(0, '127.0.0.1', async () => {
  let error;
  try {
    await attachArtifactToImage({
      credentials: {username: 'ada', password: 'secret'},
      imageName: `127.0.0.1:${server.address().port}/app`,
      imageDigest: 'sha256:' + '0'.repeat(64),
      artifact: Buffer.from('{}'),
      mediaType: 'application/json',
      annotations: {},
    });
  } catch (e) {
    error = String(e.cause?.message ?? e.message);
  }
  console.log('@sigstore/oci 0.7.2:', asked.join(', '), '->', error);
  process.exit(asked.join() === 'POST /v2/app/blobs/uploads/' && error?.startsWith('Invalid challenge') ? 0 : 1);
});
setTimeout(() => process.exit(1), 20000);
END
node try.cjs
