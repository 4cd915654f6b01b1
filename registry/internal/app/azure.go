package app

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/storage/azure"
)

// openAzure opens a container after it has probed it once.
func openAzure(ctx context.Context, a *config.Azure, log *zap.Logger, userAgent string) (*azure.Bucket, error) {
	if a.SkipVerify {
		log.Warn("storage.azure.skipverify: any certificate is accepted; anyone on the network path can read and change everything")
	}
	o := azure.Options{
		Account: a.Account(), Container: a.Container, ServiceURL: a.Service(), SkipVerify: a.SkipVerify, UserAgent: userAgent,
	}
	var err error
	if a.CredentialsType() == config.AzureSharedKey {
		o.Key = a.Key()
	} else if o.Token, err = azureToken(a, azcore.ClientOptions{}); err != nil {
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

// azureToken returns the source of tokens: an application's secret, or what the
// environment offers.
func azureToken(a *config.Azure, o azcore.ClientOptions) (azcore.TokenCredential, error) {
	c := a.Credentials
	switch {
	case a.CredentialsType() == config.AzureClientSecret:
		return azidentity.NewClientSecretCredential(c.TenantID, c.ClientID, c.Secret.Reveal(), &azidentity.ClientSecretCredentialOptions{ClientOptions: o})
	case c.ClientID != "" && os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: o, ClientID: c.ClientID, TenantID: c.TenantID})
	case c.ClientID != "":
		return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{ClientOptions: o, ID: azidentity.ClientID(c.ClientID)})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o, TenantID: c.TenantID})
}
