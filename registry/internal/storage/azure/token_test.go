package azure

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"slipway/registry/internal/storage/object/buckettest"
	"slipway/shared/programtest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// identity gives tokens whose signature nobody checks.
type identity struct{}

func (identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
		"oid": "23657296-5cd5-45b0-a809-d972a7f4dfe1", "tid": "ab1f708d-50f6-404c-a006-d71b2ac7a606", "ver": "1.0",
	})
	if err != nil {
		return azcore.AccessToken{}, err
	}
	b64 := base64.RawURLEncoding
	return azcore.AccessToken{
		Token:     b64.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + b64.EncodeToString(claims) + "." + b64.EncodeToString([]byte("x")),
		ExpiresOn: now.Add(time.Hour),
	}, nil
}

// With tokens instead of the account's key everything works. Azurite refuses grants in the form that Azure
// has now, as Azure refuses those of an identity without that right.
func TestTokens(t *testing.T) {
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	cert, key := programtest.Certificate(t)
	programtest.Launch(t, exec.Command(programtest.Tool(t, "azurite-blob"), "--blobHost", host, "--blobPort", port, "--inMemoryPersistence",
		"--silent", "--skipApiVersionCheck", "--disableTelemetry", "--oauth", "basic", "--cert", cert, "--key", key))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		resp, err := client.Get("https://" + addr + "/")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	b := makeContainer(t, Options{Account: account, Token: identity{}, ServiceURL: "https://" + addr + "/" + account, Container: "tokens", SkipVerify: true})
	buckettest.Run(t, b, "", buckettest.Options{Client: client, Unsigned: true})
}
