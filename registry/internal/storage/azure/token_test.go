package azure

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/object/buckettest"
	"slipway/shared/programtest"
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

// certificate writes one for 127.0.0.1.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// With tokens instead of the account's key everything works, and grants are signed by a
// delegation key.
func TestTokens(t *testing.T) {
	addr := programtest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(addr)
	cert, key := certificate(t, t.TempDir())
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
	if !b.Redirects() {
		t.Fatal("there is no delegation key")
	}
	if err := b.Start(t.Context(), "", zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	buckettest.Run(t, b, "", buckettest.Options{Client: client})
	if _, err := b.Put(t.Context(), "k", small("0123"), object.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	u, err := b.SignedURL(t.Context(), http.MethodGet, "k", time.Minute, object.URLOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if content, err := io.ReadAll(resp.Body); err != nil || string(content) != "0123" {
		t.Errorf("%d %q %v", resp.StatusCode, content, err)
	}
}
