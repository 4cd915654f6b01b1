package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"slipway/registry/internal/config"
	settings "slipway/shared/config"
)

// Credentials that cannot be read, or a service that cannot be reached, end the start with a
// sentence that names the key.
func TestOpenGCS_NamesTheSetting(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	bad := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(bad, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, g := range map[string]*config.GCS{
		"storage.gcs.keyfile: ":              {Bucket: "b", KeyFile: bad + "x"},
		"storage.gcs.keyfile, credentials: ": {Bucket: "b", KeyFile: bad},
		"storage.gcs.keyfile, credentials: private_key is not in PEM": {Bucket: "b", Credentials: map[string]settings.Secret{
			"type": settings.NewSecret("service_account"), "client_email": settings.NewSecret("e"), "private_key": settings.NewSecret("x"),
		}},
	} {
		if _, err := openGCS(t.Context(), g, zap.NewNop(), "test"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	core, logs := observer.New(zap.WarnLevel)
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
	if _, err := openGCS(t.Context(), &config.GCS{Bucket: "b"}, zap.New(core), "test"); err == nil || !strings.HasPrefix(err.Error(), "storage.gcs.bucket: cannot reach 127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	if logs.FilterMessageSnippet("requests are not authorized and go to an emulator").Len() != 1 {
		t.Error("nothing is said about the emulator")
	}
}
