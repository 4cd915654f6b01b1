package azure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"go.uber.org/zap"

	"slipway/registry/internal/storage"
	"slipway/registry/internal/storage/object"
)

// Start proves that the container can be listed, and learns how distribution has named
// its blobs and whether requests can expire. An error is a sentence that names the
// setting which may be wrong, relative to storage.azure.
func (b *Bucket) Start(ctx context.Context, root string, log *zap.Logger) error {
	if b.o.Token != nil {
		if err := b.delegate(ctx, log); err != nil {
			return b.explain(err)
		}
	}
	tree := "docker/registry/v2/"
	if root != "" {
		tree = root + "/" + tree
	}
	page, err := b.List(ctx, tree, object.ListOptions{Max: 1})
	if errors.Is(err, storage.ErrDenied) && b.o.Token != nil && b.expires {
		if err = b.useTokens(); err == nil {
			log.Warn("grants that the identity signs are refused, so tokens are sent: garbage collection waits longer, and clients are not redirected")
			page, err = b.List(ctx, tree, object.ListOptions{Max: 1})
		}
	}
	if err != nil {
		return b.explain(err)
	}
	if len(page.Entries) == 0 {
		b.slash = "/"
		if page, err = b.List(ctx, tree, object.ListOptions{Max: 1}); err != nil {
			return b.explain(err)
		}
		if len(page.Entries) == 0 {
			b.slash = ""
		} else {
			log.Info("the container is in the form of distribution 2: names of blobs begin with a slash")
		}
	}
	if offset := b.clock.Offset(); offset.Abs() > time.Minute {
		log.Warn("the clock differs from Azure's: requests are signed by Azure's, but set this machine's right", zap.Duration("ahead", -offset))
	}
	b.started.Store(true)
	return nil
}

// delegate learns whether the identity may sign grants.
func (b *Bucket) delegate(ctx context.Context, log *zap.Logger) error {
	_, err := b.grants.delegation(ctx, b.clock.Now().Add(longLife))
	if errors.Is(err, errNoToken) || errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	if err != nil {
		log.Warn("the identity may not get a user delegation key (role Storage Blob Data Contributor): garbage collection waits longer", zap.Error(err))
		return b.useTokens()
	}
	return nil
}

// Create makes the container unless it is there.
func (b *Bucket) Create(ctx context.Context) error {
	options := &container.ClientOptions{ClientOptions: b.options()}
	var api *container.Client
	var err error
	if b.grants.shared != nil {
		api, err = container.NewClientWithSharedKeyCredential(b.base.String(), b.grants.shared, options)
	} else {
		api, err = container.NewClient(b.base.String(), b.grants.tokens, options)
	}
	if err == nil {
		_, err = api.Create(ctx, nil)
		err = b.failed(ctx, err)
	}
	if failureCode(err) == "ContainerAlreadyExists" {
		return nil
	}
	if err != nil {
		return b.explain(err)
	}
	return nil
}

// explain makes of a failure to begin a sentence for the operator.
func (b *Bucket) explain(err error) error {
	key := "accountkey"
	if b.o.Token != nil {
		key = "credentials"
	}
	var dns *net.DNSError
	var f *Failure
	switch {
	case errors.Is(err, errNoToken):
		return fmt.Errorf("credentials: %w", err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("accountname, serviceurl: %s does not exist: %w", b.base.Hostname(), err)
	case errors.As(err, &f) && f.Code == "ContainerNotFound":
		return fmt.Errorf("container: %s does not exist in %s; make it with: az storage container create --account-name %s --name %[1]s", b.o.Container, b.base.Host, b.o.Account)
	case errors.As(err, &f) && f.Code == "AuthenticationFailed" && b.clock.Offset().Abs() > 10*time.Minute:
		return fmt.Errorf("%s: refused; this machine's clock is off by %v: %w", key, b.clock.Offset().Abs().Round(time.Second), err)
	case errors.Is(err, storage.ErrDenied):
		return fmt.Errorf("%s: refused for container %s: %w", key, b.o.Container, err)
	case errors.Is(err, storage.ErrUnavailable):
		return fmt.Errorf("serviceurl: cannot reach %s: %w", b.base.Host, err)
	}
	return fmt.Errorf("serviceurl, accountname, container: %s answers in no way that Azure does: %w", b.base.Host, err)
}
