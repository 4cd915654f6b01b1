package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage/azure"
)

// openAzure opens a container, after it has looked at it once.
func openAzure(ctx context.Context, a *config.Azure, log *zap.Logger) (*azure.Bucket, error) {
	if a.SkipVerify {
		log.Warn("storage.azure.skipverify: any certificate is accepted; anyone on the network path can read and change everything")
	}
	o := azure.Options{
		Account: a.Account(), Container: a.Container, ServiceURL: a.Service(), SkipVerify: a.SkipVerify, UserAgent: "slipway-registry/" + built().Version,
	}
	var err error
	if a.CredentialsType() == config.AzureSharedKey {
		o.Key = a.Key()
	} else if o.Token, err = azureToken(a); err != nil {
		return nil, fmt.Errorf("storage.azure.credentials: %w", err)
	}
	bucket, err := azure.New(o)
	if err != nil {
		return nil, fmt.Errorf("storage.azure.%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	if err := bucket.Start(ctx, strings.Trim(a.RootDirectory, "/"), log); err != nil {
		return nil, fmt.Errorf("storage.azure.%w", err)
	}
	return bucket, nil
}

// azureToken is where tokens come from: an application's secret, or what the
// environment offers.
func azureToken(a *config.Azure) (azcore.TokenCredential, error) {
	c := a.Credentials
	if a.CredentialsType() == config.AzureClientSecret {
		return azidentity.NewClientSecretCredential(c.TenantID, c.ClientID, c.Secret.Reveal(), nil)
	}
	if c.ClientID != "" {
		return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ID: azidentity.ClientID(c.ClientID)})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{TenantID: c.TenantID})
}
