package gcs

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// access is the purpose of a token.
const access = "https://www.googleapis.com/auth/devstorage.read_write"

// signing is the purpose of a token by which Google signs.
const signing = "https://www.googleapis.com/auth/iam"

// Credentials are the tokens of an account and, if it can sign, its signer. content is a
// file of credentials, nil for what the environment offers: a file, gcloud, or the
// machine's service account.
func Credentials(ctx context.Context, content []byte) (oauth2.TokenSource, *Signer, error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: 10 * time.Second})
	var found *google.Credentials
	var err error
	if content == nil {
		found, err = google.FindDefaultCredentials(ctx, access, signing)
	} else {
		found, err = google.CredentialsFromJSON(ctx, content, access, signing) //nolint:staticcheck // the operator has written it
	}
	if err != nil {
		return nil, nil, err
	}
	signer, err := signerOf(ctx, found)
	return found.TokenSource, signer, err
}

// signerOf is nil for credentials of no service account.
func signerOf(ctx context.Context, found *google.Credentials) (*Signer, error) {
	var account struct {
		Type       string
		Email      string `json:"client_email"`
		PrivateKey string `json:"private_key"`
	}
	if found.JSON == nil { // the machine's
		email, err := metadata.EmailWithContext(ctx, "default")
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // it has none
		}
		return &Signer{Email: email, Tokens: found.TokenSource}, nil
	}
	if err := json.Unmarshal(found.JSON, &account); err != nil {
		return nil, err
	}
	if account.Type != "service_account" {
		return nil, nil //nolint:nilnil // a person, or a federated identity
	}
	key, err := parseKey(account.PrivateKey)
	if err != nil {
		return nil, err
	}
	return &Signer{Email: account.Email, Key: key}, nil
}

func parseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("private_key is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("private_key: %w", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("private_key is not an RSA key")
	}
	return key, nil
}
