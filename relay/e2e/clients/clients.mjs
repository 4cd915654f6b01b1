// Sends messages with a library for Node: clients.mjs LIBRARY BASE TOKEN, with the libraries in NODE_CLIENTS.
// It sends each line of its input and answers with "ok" or the error. With discord.js the line "edit TEXT" edits the
// message before it and "delete" deletes it.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.env.NODE_CLIENTS + "/");
const [library, base, token] = process.argv.slice(2);

const libraries = {
  slack() {
    const { IncomingWebhook } = require("@slack/webhook");
    const hook = new IncomingWebhook(base + "/services/T0/B0/" + token);
    return async (text) => {
      const answer = await hook.send({ text, blocks: [{ type: "section", text: { type: "mrkdwn", text } }] });
      if (answer.text !== "ok") throw new Error(answer.text);
    };
  },
  discord() {
    const { EmbedBuilder, WebhookClient } = require("discord.js");
    const hook = new WebhookClient({ id: "1", token }, { rest: { api: base + "/api" } });
    let last;
    return async (line) => {
      const [verb, ...rest] = line.split(" ");
      if (verb === "edit") await hook.editMessage(last, rest.join(" "));
      else if (verb === "delete") await hook.deleteMessage(last);
      else last = (await hook.send({ content: line, embeds: [new EmbedBuilder().setTitle("Title")] })).id;
    };
  },
};

const send = libraries[library]();
for await (const line of createInterface({ input: process.stdin })) {
  try {
    await send(line);
    console.log("ok");
  } catch (e) {
    console.log(String(e).replaceAll("\n", " "));
  }
}
process.exit(0);
