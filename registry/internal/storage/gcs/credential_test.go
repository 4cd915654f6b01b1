package gcs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// cloudServices is the metadata of a machine, and what gives tokens for keys and for other identities.
func cloudServices(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	token := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}`, text)
	}
	mux.HandleFunc("GET /computeMetadata/v1/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		switch what := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/"); {
		case r.Header.Get("Metadata-Flavor") != "Google":
			w.WriteHeader(http.StatusForbidden)
		case what == "instance/service-accounts/default/token":
			token(w, "machine")
		case what == "instance/service-accounts/default/email":
			_, _ = io.WriteString(w, "machine@example.com")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("assertion") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		token(w, "key")
	})
	mux.HandleFunc("POST /clock", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error": "invalid_grant", "error_description": "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."}`)
	})
	mux.HandleFunc("POST /sts", func(w http.ResponseWriter, r *http.Request) { token(w, "federated:"+r.FormValue("subject_token")) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func accountFile(t *testing.T, tokenURL string) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return map[string]string{"type": "service_account", "client_email": "key@example.com", "private_key_id": "1", "private_key": string(text), "token_uri": tokenURL}
}

func write(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Tokens, and who signs, come from the configuration or from what the environment offers.
func TestCredentials(t *testing.T) {
	server := cloudServices(t)
	account := accountFile(t, server.URL+"/token")
	subject := filepath.Join(t.TempDir(), "subject")
	if err := os.WriteFile(subject, []byte("pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	federated := map[string]any{
		"type": "external_account", "audience": "//iam.googleapis.com/x", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"token_url": server.URL + "/sts", "credential_source": map[string]string{"file": subject},
	}
	for name, tt := range map[string]struct {
		content     any // nil = what the environment offers
		environment any // a file of GOOGLE_APPLICATION_CREDENTIALS
		token       string
		email       string // of the signer, "" = none
		key         bool   // by itself
	}{
		"section":          {account, nil, "key", "key@example.com", true},
		"environment":      {nil, account, "key", "key@example.com", true},
		"other identities": {nil, federated, "federated:pod", "", false},
		"machine":          {nil, nil, "machine", "machine@example.com", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("CLOUDSDK_CONFIG", t.TempDir())
			t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
			if tt.environment != nil {
				t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", write(t, tt.environment))
			}
			var content []byte
			if tt.content != nil {
				var err error
				if content, err = json.Marshal(tt.content); err != nil {
					t.Fatal(err)
				}
			}
			tokens, signer, err := Credentials(t.Context(), content)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tokens.Token()
			if err != nil || got.AccessToken != tt.token {
				t.Errorf("token %+v, %v; want %s", got, err, tt.token)
			}
			switch {
			case tt.email == "" && signer != nil:
				t.Errorf("%s signs", signer.Email)
			case tt.email != "" && (signer == nil || signer.Email != tt.email || (signer.Key != nil) != tt.key):
				t.Errorf("signer %+v, want %s", signer, tt.email)
			}
		})
	}
}

// A machine whose clock is wrong gets no token for its key; the sentence has the reason that Google gives.
func TestStart_Clock(t *testing.T) {
	server := cloudServices(t)
	content, err := json.Marshal(accountFile(t, server.URL+"/clock"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, signer, err := Credentials(t.Context(), content)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Bucket: "b", Endpoint: server.URL, Tokens: tokens, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Start(t.Context(), zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "keyfile, credentials: Google gives no token") || !strings.Contains(err.Error(), "reasonable timeframe") {
		t.Errorf("got %v", err)
	}
}

func TestCredentials_Bad(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CLOUDSDK_CONFIG", t.TempDir())
	for name, content := range map[string]string{
		"not JSON": "x", "no type": "{}", "no key": `{"type": "service_account", "client_email": "e", "private_key": "x", "token_uri": "http://127.0.0.1:1"}`,
	} {
		if _, _, err := Credentials(t.Context(), []byte(content)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
