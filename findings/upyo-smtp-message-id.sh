#!/bin/bash
# npm @upyo/smtp 0.4.0: the messageId of a receipt is invented, and isn't the Message-ID of the mail that was sent.
#
# The README prints it as the ID of the mail. It is taken from the server's answer if that has "id=…" or "Message-ID: …", which
# Postfix ("queued as …") and others don't write; else it is the time and a random number. Nobody can find the mail by it, nor thread
# an answer.
# Seen: receipt smtp-1795963669182-zwyv820lo, mail <1795963669169.24kkwf7gl@upyo.local>
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @upyo/smtp@0.4.0 @upyo/core@0.4.0 >install.log

cat >try.mjs <<'END'
import net from 'node:net';
import {createMessage} from '@upyo/core';
import {SmtpTransport} from '@upyo/smtp';

let mail = '', reading = false;
const server = net.createServer(socket => {
  socket.write('220 test\r\n');
  socket.on('data', chunk => {
    const text = chunk.toString();
    if (reading) {
      mail += text;
      if (mail.endsWith('\r\n.\r\n')) { reading = false; socket.write('250 2.0.0 Ok: queued as 4F2A91C0\r\n'); }
    } else if (/^EHLO/i.test(text)) socket.write('250 test\r\n');
    else if (/^DATA/i.test(text)) { reading = true; socket.write('354 go\r\n'); }
    else if (/^QUIT/i.test(text)) socket.end('221 bye\r\n');
    else socket.write('250 ok\r\n');
  });
});
await new Promise(done => server.listen(0, '127.0.0.1', done));
const transport = new SmtpTransport({host: '127.0.0.1', port: server.address().port, secure: false});
const receipt = await transport.send(createMessage({from: 'a@example.org', to: 'b@example.org', subject: 's', content: {text: 'text'}}));
const id = /^Message-ID: <(.*)>\r$/im.exec(mail)?.[1];
console.log('@upyo/smtp 0.4.0: receipt', receipt.messageId, '- mail', id);
process.exit(receipt.successful && /^smtp-\d+-/.test(receipt.messageId) && id?.endsWith('@upyo.local') && !receipt.messageId.includes(id) && !id.includes(receipt.messageId) ? 0 : 1);
END
timeout 60 node try.mjs
