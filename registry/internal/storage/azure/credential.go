package azure

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// credential signs requests, and URLs by which others may send one.
type credential interface {
	// authorize signs a request whose headers are complete.
	authorize(ctx context.Context, r *http.Request) error
	// grant returns the query that allows what permissions says on a blob until a time by
	// the store's clock.
	grant(ctx context.Context, b *Bucket, g grant) (url.Values, error)
}

// grant is a permission for one blob.
type grant struct {
	blob        string // its name
	permissions string // of r, w, d
	until       time.Time
	contentType string
}

// sharedKey is the key of an account.
type sharedKey struct {
	account string
	key     []byte
}

func newSharedKey(account, key string) (*sharedKey, error) {
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(decoded) == 0 {
		return nil, errors.New("is not a key in base64")
	}
	return &sharedKey{account, decoded}, nil
}

func (k *sharedKey) sign(text string) string {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(text)) //nolint:errcheck // a hash never fails
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// authorize implements credential: "Authorize with Shared Key" of the REST reference.
func (k *sharedKey) authorize(_ context.Context, r *http.Request) error {
	length := ""
	if r.ContentLength > 0 {
		length = strconv.FormatInt(r.ContentLength, 10)
	}
	h := r.Header
	lines := []string{
		r.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length, h.Get("Content-MD5"), h.Get("Content-Type"), "",
		h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range"),
	}
	var named []string
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			named = append(named, name+":"+strings.TrimSpace(values[0]))
		}
	}
	slices.Sort(named)
	resource := "/" + k.account + r.URL.EscapedPath()
	query := r.URL.Query()
	names := make([]string, 0, len(query))
	for name := range query {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range names {
		resource += "\n" + strings.ToLower(name) + ":" + strings.Join(query[name], ",")
	}
	text := strings.Join(append(append(lines, named...), resource), "\n")
	r.Header.Set("Authorization", "SharedKey "+k.account+":"+k.sign(text))
	return nil
}

// sasVersion is the version of the REST interface that defines the form of our grants.
const sasVersion = "2021-12-02"

// query is what all grants have, signed or not.
func (g *grant) query() url.Values {
	q := url.Values{"sv": {sasVersion}, "sr": {"b"}, "sp": {g.permissions}, "se": {g.until.UTC().Format(time.RFC3339)}}
	if g.contentType != "" {
		q.Set("rsct", g.contentType)
	}
	return q
}

// grant implements credential: a service SAS.
func (k *sharedKey) grant(_ context.Context, b *Bucket, g grant) (url.Values, error) {
	q := g.query()
	q.Set("sig", k.sign(strings.Join([]string{
		g.permissions, "", q.Get("se"), b.canonical(g.blob), "", "", "", sasVersion, "b", "", "", "", "", "", "", g.contentType,
	}, "\n")))
	return q, nil
}

// token asks Microsoft Entra ID for tokens.
type token struct {
	source azcore.TokenCredential

	mu      sync.Mutex
	current azcore.AccessToken

	keyMu sync.Mutex
	key   *delegationKey
}

// scope is what a token is for, in every cloud of Azure.
const scope = "https://storage.azure.com/.default"

// fresh is a token that is valid for some minutes.
func (t *token) fresh(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.current.ExpiresOn) < 5*time.Minute {
		got, err := t.source.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil {
			if time.Until(t.current.ExpiresOn) > 30*time.Second {
				return t.current.Token, nil
			}
			return "", fmt.Errorf("%w: %w", errNoToken, err)
		}
		t.current = got
	}
	return t.current.Token, nil
}

var errNoToken = errors.New("Microsoft Entra ID gives no token") //nolint:staticcheck // a name

// authorize implements credential.
func (t *token) authorize(ctx context.Context, r *http.Request) error {
	text, err := t.fresh(ctx)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+text)
	return nil
}

// delegationKey signs for the owner of a token.
type delegationKey struct {
	SignedOid, SignedTid, SignedStart, SignedExpiry, SignedService, SignedVersion, Value string

	signer sharedKey
	until  time.Time
}

// delegated is a delegation key that is valid until a time at least.
func (t *token) delegated(ctx context.Context, b *Bucket, until time.Time) (*delegationKey, error) {
	t.keyMu.Lock()
	defer t.keyMu.Unlock()
	if t.key != nil && until.Before(t.key.until) {
		return t.key, nil
	}
	key, err := b.delegationKey(ctx, until.Add(24*time.Hour))
	if err != nil {
		return nil, err
	}
	t.key = key
	return key, nil
}

// grant implements credential: a user delegation SAS.
func (t *token) grant(ctx context.Context, b *Bucket, g grant) (url.Values, error) {
	k, err := t.delegated(ctx, b, g.until)
	if err != nil {
		return nil, err
	}
	q := g.query()
	for name, value := range map[string]string{
		"skoid": k.SignedOid, "sktid": k.SignedTid, "skt": k.SignedStart, "ske": k.SignedExpiry, "sks": k.SignedService, "skv": k.SignedVersion,
	} {
		q.Set(name, value)
	}
	q.Set("sig", k.signer.sign(strings.Join([]string{
		g.permissions, "", q.Get("se"), b.canonical(g.blob),
		k.SignedOid, k.SignedTid, k.SignedStart, k.SignedExpiry, k.SignedService, k.SignedVersion, "", "", "",
		"", "", sasVersion, "b", "", "", "", "", "", "", g.contentType,
	}, "\n")))
	return q, nil
}
