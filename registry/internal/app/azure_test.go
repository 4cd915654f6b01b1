package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/config"
	settings "slipway/shared/config"
)

// microsoft answers as Entra ID and the metadata of a machine do, with tokens that name their audience.
type microsoft struct{ machine bool }

const tenant = "https://login.microsoftonline.com/tenant/"

// Do implements policy.Transporter.
func (m microsoft) Do(r *http.Request) (*http.Response, error) {
	status, answer := http.StatusOK, map[string]any{}
	token := func(text string) {
		answer = map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": 3600, "expires_on": "4102444800", "resource": "https://storage.azure.com"}
	}
	q := r.URL.Query()
	switch {
	case r.URL.Host == "169.254.169.254":
		switch {
		case !m.machine:
			return nil, fmt.Errorf("dial tcp %s: no route to host", r.URL.Host)
		case r.Header.Get("Metadata") == "":
			status = http.StatusBadRequest // so the library sees that somebody is there
		default:
			token("machine:" + q.Get("client_id"))
		}
	case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		answer = map[string]any{"tenant_discovery_endpoint": tenant + "v2.0/.well-known/openid-configuration", "metadata": []any{
			map[string]any{"preferred_network": r.URL.Host, "preferred_cache": r.URL.Host, "aliases": []string{r.URL.Host}},
		}}
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		answer = map[string]any{"authorization_endpoint": tenant + "authorize", "token_endpoint": tenant + "token", "issuer": tenant + "v2.0"}
	case r.Method == http.MethodPost:
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		token(r.PostForm.Get("client_id") + ":" + r.PostForm.Get("client_secret") + r.PostForm.Get("client_assertion"))
	default:
		status = http.StatusNotFound
	}
	content, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(content))), Request: r,
	}, nil
}

// Tokens come from the configuration, or from what the environment offers.
func TestAzureToken(t *testing.T) {
	federated := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(federated, []byte("token-of-the-pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	workload := map[string]string{"AZURE_CLIENT_ID": "pod", "AZURE_TENANT_ID": "tenant", "AZURE_FEDERATED_TOKEN_FILE": federated}
	for name, tt := range map[string]struct {
		credentials config.AzureCredentials
		environment map[string]string
		machine     bool
		want        string // "" = an error
	}{
		"client secret":              {config.AzureCredentials{Type: config.AzureClientSecret, TenantID: "tenant", ClientID: "app", Secret: settings.NewSecret("s")}, nil, true, "app:s"},
		"environment":                {config.AzureCredentials{}, map[string]string{"AZURE_CLIENT_ID": "app2", "AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_SECRET": "s2"}, true, "app2:s2"},
		"workload identity":          {config.AzureCredentials{Type: config.AzureDefault}, workload, true, "pod:token-of-the-pod"},
		"workload identity, by id":   {config.AzureCredentials{ClientID: "other"}, workload, true, "other:token-of-the-pod"},
		"managed identity":           {config.AzureCredentials{}, nil, true, "machine:"},
		"managed identity, by id":    {config.AzureCredentials{ClientID: "mine"}, nil, true, "machine:mine"},
		"nothing":                    {config.AzureCredentials{}, nil, false, ""},
		"managed identity, not here": {config.AzureCredentials{ClientID: "mine"}, nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{
				"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
				"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_USERNAME", "IDENTITY_ENDPOINT", "MSI_ENDPOINT",
			} {
				t.Setenv(variable, tt.environment[variable])
				if tt.environment[variable] == "" {
					os.Unsetenv(variable)
				}
			}
			t.Setenv("AZURE_TOKEN_CREDENTIALS", "prod") // no programs of this machine
			source, err := azureToken(&config.Azure{AccountName: "a", Credentials: tt.credentials}, azcore.ClientOptions{
				Transport: microsoft{tt.machine}, Retry: policy.RetryOptions{MaxRetries: -1},
			})
			if err != nil {
				t.Fatal(err)
			}
			// The library remembers tokens for the whole process, by what they are for.
			got, err := source.GetToken(t.Context(), policy.TokenRequestOptions{Scopes: []string{"https://" + strings.ReplaceAll(name, " ", "-") + ".example/.default"}})
			if got.Token != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got.Token, err, tt.want)
			}
		})
	}
}

// skipverify is said in the log each time, and does what it says.
func TestSkipVerify(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<EnumerationResults><Blobs></Blobs></EnumerationResults>") // S3 or Azure: an empty listing
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that are refused
	t.Setenv("AWS_CA_BUNDLE", "")
	key := settings.NewSecret("a2V5")
	for driver, open := range map[string]func(skip bool, lines *zap.Logger) error{
		"s3": func(skip bool, lines *zap.Logger) error {
			b, err := openS3(t.Context(), &config.S3{AccessKey: key, SecretKey: key, RegionEndpoint: server.URL, ForcePathStyle: "auto", Bucket: "b", Secure: true, SkipVerify: skip}, lines)
			if err == nil {
				b.Close()
			}
			return err
		},
		"azure": func(skip bool, lines *zap.Logger) error {
			b, err := openAzure(t.Context(), &config.Azure{AccountName: "a", AccountKey: key, ServiceURL: server.URL, Container: "abc", SkipVerify: skip}, lines, "test")
			if err == nil {
				b.Close()
			}
			return err
		},
	} {
		for _, skip := range []bool{true, false} {
			core, logs := observer.New(zap.WarnLevel)
			err := open(skip, zap.New(core))
			warned := logs.Filter(func(e observer.LoggedEntry) bool {
				return strings.HasPrefix(e.Message, "storage."+driver+".skipverify: ")
			}).Len()
			if skip && (err != nil || warned != 1) {
				t.Errorf("%s: %v, %d warnings", driver, err, warned)
			}
			if !skip && (err == nil || !strings.Contains(err.Error(), "certificate") || warned != 0) {
				t.Errorf("%s: a certificate that nobody knows: %v, %d warnings", driver, err, warned)
			}
		}
	}
}
