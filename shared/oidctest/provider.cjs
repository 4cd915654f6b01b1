// An OpenID Connect provider for tests. Anybody logs in with any password; the groups of
// NAME@GROUP are what follows the at sign.
// node provider.cjs DIRECTORY-OF-MODULES PORT CLIENT SECRET CALLBACK
const [modules, port, client, secret, callback] = process.argv.slice(2);
(async () => {
  const { Provider } = await import(modules + "/oidc-provider/lib/index.js");
  const provider = new Provider("http://127.0.0.1:" + port, {
    clients: [{ client_id: client, client_secret: secret, redirect_uris: [callback], token_endpoint_auth_method: "client_secret_basic" }],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id.split("@")[0], groups: id.split("@").slice(1) }),
    }),
    cookies: { keys: ["a key of the tests"] },
  });
  provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
})();
