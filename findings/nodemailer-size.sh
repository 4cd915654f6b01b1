#!/bin/bash
# npm nodemailer 10.6.1: no SIZE in MAIL FROM, though the server offers it and the client knows the size.
#
# RFC 1870 lets a server refuse a mail that is too large before it is sent. Python's smtplib uses it; nodemailer sends all
# of it first and gets the 552 after DATA. The limit announced after EHLO isn't heeded either.
# Seen: MAIL FROM:<a@example.org>, then 20,000 bytes and more to a server with SIZE 1000
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nodemailer@10.6.1 >install.log

cat >try.mjs <<'END'
import net from 'node:net';
import nodemailer from 'nodemailer';

let from = '', data = 0, reading = false;
const server = net.createServer(socket => {
  socket.write('220 test\r\n');
  socket.on('data', chunk => {
    const text = chunk.toString('latin1');
    if (reading) {
      data += chunk.length;
      if (text.endsWith('\r\n.\r\n')) { reading = false; socket.write('552 too large\r\n'); }
    } else if (/^EHLO/i.test(text)) socket.write('250-test\r\n250 SIZE 1000\r\n');
    else if (/^DATA/i.test(text)) { reading = true; socket.write('354 go\r\n'); }
    else if (/^QUIT/i.test(text)) socket.end('221 bye\r\n');
    else { if (/^MAIL/i.test(text)) from = text.trim(); socket.write('250 ok\r\n'); }
  });
});
await new Promise(done => server.listen(0, '127.0.0.1', done));
const mail = {from: 'a@example.org', to: 'b@example.org', subject: 's', text: 'x\n'.repeat(10000)};
const end = await nodemailer.createTransport({host: '127.0.0.1', port: server.address().port}).sendMail(mail).then(() => 'sent', error => error.responseCode);
server.close();
console.log('nodemailer 10.6.1:', from, '- bytes of data', data, '- ends with', end);
process.exitCode = !from.includes('SIZE') && data > 20000 && end === 552 ? 0 : 1;
END
node try.mjs
