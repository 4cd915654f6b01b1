package app

import (
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/shared/secretfile"
)

// secretFiles are the files and directories of the storage that hold secrets: the keys
// that sign tokens, and the robots.
func secretFiles(cfg *config.Config) []string {
	s := cfg.Storage.Filesystem
	if s == nil {
		return nil
	}
	robots, _ := filepath.Glob(s.RootDirectory + layout.Robots + "/*") // the error is about the pattern
	return append(robots, s.RootDirectory+layout.Auth, s.RootDirectory+layout.Robots, s.RootDirectory+layout.Keys)
}

// RestrictSecrets takes the permissions of others from files with secrets that an older
// build, a restore or a copy has left readable.
func RestrictSecrets(cfg *config.Config, log *zap.Logger) {
	changed, err := secretfile.Restrict(secretFiles(cfg)...)
	if len(changed) > 0 {
		log.Warn("other users of this machine could read files with secrets; now only their owner can. If somebody may have read them, replace the secrets", zap.Strings("files", changed))
	}
	if err != nil {
		log.Warn("other users of this machine can read files with secrets, and the registry may not change that", zap.Error(err))
	}
}

// secretWarnings names the files with secrets that others can read.
func secretWarnings(cfg *config.Config) []string {
	var warnings []string
	for _, path := range some(secretfile.Exposed(secretFiles(cfg)...)) {
		warnings = append(warnings, fmt.Sprintf("%s holds secrets, and other users of this machine can read it: chmod go= %[1]s, or start the registry, which does so", path))
	}
	return warnings
}
