#!/bin/bash
# npm @snyk/docker-registry-v2-client 4.0.5: getManifest asks for Docker's two types only.
#
# The package knows the types of OCI (its getAttestationManifest accepts them), but getManifest doesn't send them unless
# options.acceptManifest does. A registry that honors Accept, as CNCF distribution does, answers 404 for an OCI image.
# Seen: accept is the manifest.v2 and manifest.list.v2 of vnd.docker.distribution
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @snyk/docker-registry-v2-client@4.0.5 >install.log

cat >try.cjs <<'END'
const http = require('node:http');
const client = require('@snyk/docker-registry-v2-client');

const accepts = [];
const server = http.createServer((request, response) => {
  accepts.push(request.headers.accept);
  response.setHeader('Content-Type', 'application/vnd.docker.distribution.manifest.v2+json');
  response.end('{"schemaVersion":2,"layers":[]}');
});
server.listen(0, '127.0.0.1', async () => {
  const host = `127.0.0.1:${server.address().port}`;
  await client.getManifest(host, 'team/app', '1', '', '', {protocol: 'http'});
  await client.getAttestationManifest(host, 'team/app', '1', '', '', {protocol: 'http'}).catch(() => {});
  server.close();
  console.log('@snyk/docker-registry-v2-client 4.0.5: getManifest accepts', accepts[0]);
  console.log('getAttestationManifest accepts', accepts[1]);
  process.exitCode = !accepts[0].includes('oci') && accepts[1].includes('oci.image.manifest') ? 0 : 1;
});
END
node try.cjs
