#!/bin/bash
# npm parse-docker-image-name 3.0.0: a registry at an IPv6 address gives an empty object, not an error.
#
# distribution/reference takes [2001:db8::1]:5000 as a domain, so docker and podman pull from it. The same name with an
# IPv4 address is parsed.
# Seen: {} for [2001:db8::1]:5000/team/app:1
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts parse-docker-image-name@3.0.0 >install.log

cat >try.mjs <<'END'
import parse from 'parse-docker-image-name';

const six = JSON.stringify(parse('[2001:db8::1]:5000/team/app:1'));
const four = JSON.stringify(parse('192.0.2.1:5000/team/app:1'));
console.log('parse-docker-image-name 3.0.0: IPv6', six, 'IPv4', four);
process.exitCode = six === '{}' && JSON.parse(four).domain === '192.0.2.1:5000' ? 0 : 1;
END
node try.mjs
