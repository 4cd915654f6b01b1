package config

import (
	"testing"

	"slipway/shared/config/configtest"
)

func TestEachSettingIsRead(t *testing.T) {
	configtest.WantRead(t, Config{})
}
