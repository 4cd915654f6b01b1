// A device of a person in matrix-js-sdk, which today's web and desktop clients are built on. It logs in, makes the person's identity
// as those clients do at the first login, and obeys: one request of JSON a line on standard input, one answer a line on standard output.
//
//   node reader.mjs SDK HOMESERVER USER PASSWORD
import { createDecipheriv, createHash, webcrypto } from "node:crypto";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

// What the library expects of a newer Node than Debian's.
globalThis.crypto ??= webcrypto;
Promise.withResolvers ??= function () {
    const all = {};
    all.promise = new this((resolve, reject) => Object.assign(all, { resolve, reject }));
    return all;
};
const [, , root, homeserver, user, password] = process.argv;
const answer = (value) => process.stdout.write(JSON.stringify(value) + "\n");
for (const level of ["log", "info", "debug", "warn", "error", "trace"]) console[level] = () => {}; // standard output is for answers
const sdk = await import(pathToFileURL(root + "/lib/index.js").href);
const { decodeRecoveryKey } = await import(pathToFileURL(root + "/lib/crypto-api/recovery-key.js").href);
const quiet = { trace() {}, debug() {}, info() {}, warn() {}, error() {}, getChild: () => quiet };

const login = await sdk.createClient({ baseUrl: homeserver, logger: quiet }).loginRequest({
    type: "m.login.password",
    identifier: { type: "m.id.user", user },
    password,
});
const secrets = new Map(); // private keys of secret storage, by name
const client = sdk.createClient({
    baseUrl: homeserver,
    userId: login.user_id,
    deviceId: login.device_id,
    accessToken: login.access_token,
    logger: quiet,
    cryptoCallbacks: {
        getSecretStorageKey: async ({ keys }) => {
            for (const [id, key] of secrets) if (keys[id]) return [id, key];
            return secrets.has("") ? [Object.keys(keys)[0], secrets.get("")] : null;
        },
        cacheSecretStorageKey: (id, _info, key) => secrets.set(id, key),
    },
});
await client.initRustCrypto({ useIndexedDB: false });
const crypto = client.getCrypto();

// authenticate gives the password where the homeserver asks for it.
const authenticate = async (send) => {
    try {
        await send(null);
    } catch (refused) {
        if (!refused.data?.flows) throw refused;
        await send({
            type: "m.login.password",
            identifier: { type: "m.id.user", user: login.user_id },
            password,
            session: refused.data.session,
        });
    }
};

// read is what a client shows of an event: shield is 0 where it shows no warning.
const read = async (event) => {
    const info = await crypto.getEncryptionInfoForEvent(event);
    return {
        id: event.getId(),
        type: event.getType(),
        content: event.getContent(),
        encrypted: event.isEncrypted(),
        failed: event.isDecryptionFailure() ? String(event.decryptionFailureReason) : "",
        removed: event.isRedacted(),
        shield: info ? info.shieldColour : -1,
        reason: info?.shieldReason ?? null,
    };
};

const commands = {
    // identity makes the person's identity, or replaces it, and returns its recovery key.
    async identity() {
        const key = await crypto.createRecoveryKeyFromPassphrase();
        await crypto.bootstrapSecretStorage({ setupNewSecretStorage: true, createSecretStorageKey: async () => key });
        await crypto.bootstrapCrossSigning({ setupNewCrossSigning: true, authUploadDeviceSigningKeys: authenticate });
        return key.encodedPrivateKey;
    },
    // recover takes the identity that the recovery key opens, and signs this device with it.
    async recover({ key }) {
        secrets.set("", decodeRecoveryKey(key));
        await crypto.bootstrapCrossSigning({ authUploadDeviceSigningKeys: authenticate });
        return "";
    },
    async start() {
        await client.startClient({ initialSyncLimit: 50, pollTimeout: 2000 });
        await new Promise((done) => client.on("sync", (state) => state === "PREPARED" && done()));
        return login.device_id;
    },
    // create makes a room with what clients set for a private one.
    async create({ invite }) {
        const made = await client.createRoom({
            preset: "private_chat",
            visibility: "private",
            invite: [invite],
            initial_state: [{ type: "m.room.encryption", state_key: "", content: { algorithm: "m.megolm.v1.aes-sha2" } }],
        });
        return made.room_id;
    },
    async events({ room }) {
        const timeline = client.getRoom(room)?.getLiveTimeline().getEvents() ?? [];
        return Promise.all(timeline.filter((e) => !e.isState()).map(read));
    },
    // file downloads and decrypts the file of an event, and returns it in base64.
    async file({ room, id }) {
        const { file } = client.getRoom(room).findEventById(id).getContent();
        const answer = await fetch(client.mxcUrlToHttp(file.url, undefined, undefined, undefined, false, true, true), {
            headers: { Authorization: "Bearer " + login.access_token },
        });
        const sealed = Buffer.from(await answer.arrayBuffer());
        const hash = createHash("sha256").update(sealed).digest("base64").replace(/=+$/, "");
        if (!answer.ok || hash !== file.hashes.sha256) throw new Error(`${answer.status}, hash ${hash}`);
        const open = createDecipheriv("aes-256-ctr", Buffer.from(file.key.k, "base64url"), Buffer.from(file.iv, "base64"));
        return Buffer.concat([open.update(sealed), open.final()]).toString("base64");
    },
    // device says how this client sees a device of another user.
    async device({ user, device }) {
        const [status, person] = await Promise.all([
            crypto.getDeviceVerificationStatus(user, device),
            crypto.getUserVerificationStatus(user),
        ]);
        return {
            known: status !== null,
            signed: status?.signedByOwner ?? false,
            changed: person.needsUserApproval,
            verified: person.isCrossSigningVerified(),
        };
    },
    // accept takes the identity that a user has now, as a person does who is asked about a changed one.
    async accept({ user }) {
        await crypto.pinCurrentUserIdentity(user);
        return "";
    },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    try {
        answer({ result: await commands[request.do](request) });
    } catch (failed) {
        answer({ error: `${request.do}: ${failed.stack ?? failed}` });
    }
}
process.exit(0);
