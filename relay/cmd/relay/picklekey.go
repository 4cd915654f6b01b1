package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"slipway/relay/internal/config"
	"slipway/shared/durabledir"
	"slipway/shared/fileerror"
)

// pickleKeySuffix is behind the name of the SQLite database in that of the file with the pickle key.
const pickleKeySuffix = ".pickle_key"

// pickleKey returns the key that encrypts the bot's keys in the database: the configured one or, with SQLite, that of the
// file beside the database, which it creates if missing. It returns nil for PostgreSQL without a configured key; the bot
// then cannot encrypt.
func pickleKey(cfg *config.Config) ([]byte, error) {
	if key := cfg.Matrix.PickleKey.Reveal(); key != "" {
		return []byte(key), nil
	}
	if cfg.Database.Postgres() {
		return nil, nil
	}
	path := cfg.Database.Connection + pickleKeySuffix
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makePickleKey(path)
	}
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the pickle key: %w", fileerror.Explain(path, err))
	case key == "":
		return nil, fmt.Errorf("read the pickle key: %s is empty: put the key back; if it is lost, delete the file and remove the bot's device from its account, as docs/relay/encrypted-rooms.md says", path)
	}
	return []byte(key), nil
}

// makePickleKey creates a key file atomically and durably.
func makePickleKey(path string) ([]byte, error) {
	key := rand.Text() + rand.Text()
	err := durabledir.Replace(path, []byte(key+"\n"), func(f *os.File) error { return giveToOwnerOf(strings.TrimSuffix(path, pickleKeySuffix), f) })
	if err != nil {
		return nil, fmt.Errorf("make the pickle key: %w", fileerror.Explain(path, err))
	}
	return []byte(key), nil
}

// giveToOwnerOf lets the owner of the database read the key, also if an administrator has run the first command.
func giveToOwnerOf(database string, f *os.File) error {
	info, err := os.Stat(database)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
