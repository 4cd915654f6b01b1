package main

import (
	"fmt"

	"go.uber.org/zap"

	"slipway/relay/internal/config"
	"slipway/shared/secretfile"
)

// secretFiles returns the SQLite database (the bot's session, hashed tokens, messages), its WAL files and the pickle key;
// nil for PostgreSQL.
func secretFiles(cfg *config.Config) []string {
	if cfg.Database.Postgres() {
		return nil
	}
	path := cfg.Database.Connection
	return []string{path, path + "-wal", path + "-shm", path + pickleKeySuffix}
}

// restrictSecrets makes secret files private that an older build, a restore or a copy left readable.
func restrictSecrets(cfg *config.Config, log *zap.Logger) {
	changed, err := secretfile.Restrict(secretFiles(cfg)...)
	if len(changed) > 0 {
		log.Warn("other users of this machine could read files with secrets; now only their owner can. If somebody may have read them, replace the bot's password and log out its session", zap.Strings("files", changed))
	}
	if err != nil {
		log.Warn("other users of this machine can read files with secrets, and the relay may not change that", zap.Error(err))
	}
}

// secretWarnings names the files with secrets that others can read.
func secretWarnings(cfg *config.Config) []string {
	var warnings []string
	for _, path := range secretfile.Exposed(secretFiles(cfg)...) {
		warnings = append(warnings, fmt.Sprintf("%s holds secrets, and other users of this machine can read it: chmod go= %[1]s, or start the relay, which does so", path))
	}
	return warnings
}
