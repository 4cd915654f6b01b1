package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"slipway/shared/durabledir"
	"slipway/shared/fileerror"
)

// Files of a folder of secrets.
const (
	BotPassword    = "matrix_password"           // of the bot
	AdminPassword  = "admin_password"            // of the administrator of the relay's web interface
	PersonPassword = "person_password"           // of the administrator's own Matrix account
	ServerPassword = "homeserver_admin_password" // of the homeserver's administrator
	ServerToken    = "homeserver_admin_token"    // its session
	HookSecret     = "hook_secret"               // what the registry signs its notifications with; in both folders
	RegistrySecret = "registry_http_secret"      // http.secret of the registry
	Token          = "relay_token"               // of the application
	Headers        = "registry_headers"          // what the registry sends along with its notifications
)

const (
	candidate = ".unproven"           // suffix of a secret that no account has yet
	proven    = ".bot_password_works" // hash of the password that the bot's account was seen to have
)

// Secrets is a folder of files with mode 0600, each with one secret and a line end. One process at a time may open it.
type Secrets struct {
	dir  string
	lock *os.File
}

// OpenSecrets opens the folder and creates it if necessary. The caller must close it.
func OpenSecrets(dir string) (*Secrets, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fileerror.Explain(dir+string(filepath.Separator), err) // the way to something in it is missing
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fileerror.Explain(dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another setup works on %s at this moment; let it finish", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return &Secrets{dir: dir, lock: f}, nil
}

// Close releases the folder.
func (s *Secrets) Close() error { return s.lock.Close() }

// Path returns the path of a secret.
func (s *Secrets) Path(name string) string { return filepath.Join(s.dir, name) }

// Get returns a secret, or "" if it does not exist.
func (s *Secrets) Get(name string) (string, error) { return ReadSecret(s.dir, name) }

// ReadSecret is like Get for a folder that isn't open.
func ReadSecret(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fileerror.Explain(filepath.Join(dir, name), err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// Make creates the secrets that are missing or empty and returns their names.
func (s *Secrets) Make(names ...string) (made []string, err error) {
	for _, name := range names {
		there, err := s.Get(name)
		if err != nil {
			return made, err
		}
		if there != "" {
			continue
		}
		if err := s.Put(name, rand.Text()); err != nil {
			return made, err
		}
		made = append(made, name)
	}
	return made, nil
}

// Put writes a secret atomically and durably.
func (s *Secrets) Put(name, secret string) error {
	return fileerror.Explain(s.dir, durabledir.Replace(s.Path(name), []byte(secret+"\n"), nil))
}

// rename renames a file within the folder, durably.
func (s *Secrets) rename(from, to string) error {
	if err := os.Rename(s.Path(from), s.Path(to)); err != nil {
		return fileerror.Explain(s.dir, err)
	}
	return s.lock.Sync() // syncs the directory
}

func (s *Secrets) remove(name string) error {
	err := os.Remove(s.Path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copySecret copies a secret to another folder, whose own it replaces: the two must be equal.
func copySecret(name string, from, to *Secrets) error {
	secret, err := from.Get(name)
	if err != nil {
		return err
	}
	if there, err := to.Get(name); there == secret || err != nil {
		return err
	}
	return to.Put(name, secret)
}

// MakeSecrets creates the secrets that both services need to start. The registry's may be in another folder.
func MakeSecrets(relay, registry *Secrets, say func(format string, args ...any)) error {
	made, err := relay.Make(BotPassword, AdminPassword, HookSecret)
	if err != nil {
		return err
	}
	more, err := registry.Make(RegistrySecret)
	if err != nil {
		return err
	}
	if err := copySecret(HookSecret, relay, registry); err != nil {
		return err
	}
	if made = append(made, more...); len(made) == 0 {
		say("secrets: already exist in %s", relay.dir)
		return nil
	}
	say("secrets: %s created in %s", strings.Join(made, ", "), relay.dir)
	return nil
}
