package config

import (
	"testing"

	"slipway/shared/config/configtest"
)

func TestEachSettingIsRead(t *testing.T) {
	configtest.WantRead(t, Config{},
		"policy.signatures.identities", "access.rules.who", "slipway.limits.user", "slipway.limits.address", // converted as a whole
		"storage.azure.connectionstring", "storage.s3.v4auth", "storage.cache.blobdescriptor")
}
