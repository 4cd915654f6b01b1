package azure

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"slipway/registry/internal/storage/object"
	"slipway/registry/internal/storage/rest"
)

// grants signs URLs with the account's key, or with a key that Azure delegates to an identity.
type grants struct {
	b      *Bucket
	shared *sas.SharedKeyCredential
	tokens azcore.TokenCredential

	mu        *sync.Mutex
	delegated *service.UserDelegationCredential
	until     time.Time // of delegated
}

func newGrants(b *Bucket) (grants, error) {
	g := grants{b: b, mu: &sync.Mutex{}}
	if b.o.Token != nil {
		g.tokens = named{b.o.Token}
		return g, nil
	}
	key := strings.TrimSpace(b.o.Key)
	if decoded, err := base64.StdEncoding.DecodeString(key); err != nil || len(decoded) == 0 {
		return g, errors.New("accountkey: is not a key in base64")
	}
	var err error
	g.shared, err = container.NewSharedKeyCredential(b.o.Account, key)
	return g, err
}

var errNoToken = errors.New("Microsoft Entra ID gives no token") //nolint:staticcheck // a name

// named adds to an error that Entra ID gave no token.
type named struct{ azcore.TokenCredential }

func (n named) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	t, err := n.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoToken, err)
	}
	return t, err
}

// sign returns a query that grants what v says in the container.
func (g *grants) sign(ctx context.Context, v sas.BlobSignatureValues) (string, error) {
	v.ContainerName = g.b.o.Container
	if g.shared != nil {
		q, err := v.SignWithSharedKey(g.shared)
		return q.Encode(), err
	}
	key, err := g.delegation(ctx, v.ExpiryTime)
	if err != nil {
		return "", err
	}
	q, err := v.SignWithUserDelegation(key)
	return q.Encode(), err
}

// delegation returns a key that is valid until a time at least.
func (g *grants) delegation(ctx context.Context, until time.Time) (*service.UserDelegationCredential, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.delegated != nil && until.Before(g.until) {
		return g.delegated, nil
	}
	account, err := service.NewClient(strings.TrimSuffix(g.b.base.String(), g.b.o.Container), g.tokens, &service.ClientOptions{ClientOptions: g.b.options()})
	if err != nil {
		return nil, err
	}
	now := g.b.clock.Now()
	end := until.Add(24 * time.Hour)
	if week := now.Add(7*24*time.Hour - time.Minute); end.After(week) {
		end = week
	}
	key, err := account.GetUserDelegationCredential(ctx, service.KeyInfo{
		Start: to.Ptr(now.Add(-time.Minute).UTC().Format(sas.TimeFormat)), Expiry: to.Ptr(end.UTC().Format(sas.TimeFormat)),
	}, nil)
	if err != nil {
		return nil, g.b.failed(ctx, err)
	}
	g.delegated, g.until = key, end
	return key, nil
}

// useTokens sends each request with a token: the identity may not sign grants.
func (b *Bucket) useTokens() (err error) {
	b.expires = false
	b.api, err = container.NewClient(b.base.String(), b.grants.tokens, &container.ClientOptions{ClientOptions: b.options()})
	return err
}

// authorize puts a grant into the URL of each request.
type authorize struct{ b *Bucket }

// Do implements policy.Policy. The life of a change begins when it was decided to send it.
func (a authorize) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	until := a.b.clock.Now().Add(longLife)
	if rest.Expires(raw.Context()) {
		until = object.Sent(raw.Context()).Add(a.b.clock.Offset() + life)
	}
	query, err := a.b.grants.sign(raw.Context(), sas.BlobSignatureValues{Permissions: "racwdl", ExpiryTime: until})
	if err != nil {
		return nil, object.Unsent(err)
	}
	if raw.URL.RawQuery != "" {
		query = raw.URL.RawQuery + "&" + query
	}
	raw.URL.RawQuery = query
	return req.Next()
}
