package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/shared/fileerror"
)

// What commonly keeps a registry from starting is said in a sentence, with the
// setting, the path, and what to do.

// CheckFiles checks that the files which the configuration names can be read and used, and that
// the root of the storage can be a directory. cfg may be incomplete, as after an error of
// config.Read.
func CheckFiles(cfg *config.Config) error {
	var errs []error
	check := func(key, path string) {
		if path == "" {
			return // the check of the values names it
		}
		if err := canRead(path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, fileerror.Explain(path, err)))
		}
	}
	if t := cfg.HTTP.TLS; t != nil {
		errs = appendError(errs, "http.tls.letsencrypt.cachefile", checkRoot(t.LetsEncrypt.CacheFile))
		check("http.tls.certificate", t.Certificate)
		check("http.tls.key", t.Key)
		for i, path := range t.ClientCAs {
			check(fmt.Sprintf("http.tls.clientcas[%d]", i), path)
		}
		if len(errs) == 0 && t.Certificate != "" && t.Key != "" {
			errs = appendError(errs, "http.tls", tlsOptions(t, nil).Check())
		}
	}
	if s := cfg.Storage.Filesystem; s != nil {
		errs = appendError(errs, "storage.filesystem.rootdirectory", checkRoot(s.RootDirectory))
		if !cfg.Storage.Maintenance.ReadOnly.Enabled {
			errs = appendError(errs, "storage.filesystem.rootdirectory", checkDevices(s.RootDirectory))
		}
	}
	if a := cfg.Audit; a != nil && a.File != "" {
		if _, err := os.Stat(filepath.Dir(a.File)); err != nil {
			errs = append(errs, fmt.Errorf("audit.file: %w", fileerror.Explain(filepath.Dir(a.File), err)))
		}
	}
	checkAuthFiles(cfg, check)
	if a := cfg.Access; a != nil && a.File != "" && canRead(a.File) == nil {
		_, err := AccessRules(a)
		errs = appendError(errs, "access.file", err)
	}
	if a := cfg.Auth; a != nil && a.HTPasswd != nil && a.HTPasswd.Path != "" {
		if path := a.HTPasswd.Path; errors.Is(canRead(path), fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("auth.htpasswd.path: %s does not exist; make it with: %sregistry htpasswd %[1]s USER", path, makeDirectory(filepath.Dir(path))))
		} else {
			check("auth.htpasswd.path", path)
			errs = appendError(errs, "auth.htpasswd.path", checkPasswords(cfg))
		}
	}
	_, err := signatureRules(&cfg.Policy)
	return errors.Join(append(errs, err)...)
}

// checkRoot refuses a root that is a file, or below one. Opening the storage reports other
// errors.
func checkRoot(root string) error {
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s is not a directory: name one", root)
	}
	return nil
}

// checkDevices refuses a tree of which a part is on another file system than its root, where files
// are written before they are moved to their place: each push would fail.
func checkDevices(root string) error {
	var top, part unix.Stat_t
	topErr := unix.Stat(root, &top) // opening the storage reports errors
	for _, name := range []string{"/docker", "/docker/registry", "/docker/registry/v2", layout.Blobs, layout.Repositories} {
		if topErr == nil && unix.Stat(root+name, &part) == nil && part.Dev != top.Dev {
			return fmt.Errorf("%s is on another file system than %s: mount the volume at %[2]s, or name the directory on it that holds docker/", root+name, root)
		}
	}
	return nil
}

func appendError(errs []error, key string, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, fmt.Errorf("%s: %w", key, err))
}

// makeDirectory is the start of a command line that needs the directory.
func makeDirectory(dir string) string {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "mkdir -p " + dir + " && "
	}
	return ""
}

func canRead(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a FIFO would wait for a writer
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return fmt.Errorf("%s is a FIFO, not a file: name a file", path)
	} else if err == nil && info.IsDir() { // what Docker mounts in the place of a file that is missing
		return fmt.Errorf("%s is a directory, not a file: name a file in it, or mount one there", path)
	}
	return nil
}

// checkStorage refuses to serve a root directory that belongs to somebody else: an
// older registry that ran as root has made it, most often. A volume that is
// mounted read-only still serves what can be read.
func checkStorage(cfg *config.Config) error {
	s := cfg.Storage.Filesystem
	if s == nil {
		return nil
	}
	root, err := filepath.Abs(s.RootDirectory)
	if err != nil {
		return err
	}
	if info, err := os.Stat(root); err == nil && !info.IsDir() {
		return nil // opening the storage fails with that
	}
	mode := uint32(unix.R_OK | unix.W_OK | unix.X_OK)
	if cfg.Storage.Maintenance.ReadOnly.Enabled {
		mode = unix.R_OK | unix.X_OK
	}
	for _, path := range placesIn(root) {
		err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if errors.Is(err, fs.ErrPermission) {
			return explainForeignOwner(root, path, err)
		}
	}
	return missingRoot(root)
}

// warnMountedReadOnly says at the start what the health checks find after some time.
func warnMountedReadOnly(cfg *config.Config, log *zap.Logger) {
	s := cfg.Storage.Filesystem
	if s == nil || cfg.Storage.Maintenance.ReadOnly.Enabled {
		return
	}
	if err := unix.Faccessat(unix.AT_FDCWD, s.RootDirectory, unix.W_OK, unix.AT_EACCESS); errors.Is(err, unix.EROFS) {
		log.Warn("the storage is mounted read-only: pushes and deletions fail until it can be written; pulls work", zap.String("path", s.RootDirectory))
	}
}

// placesIn are directories of a tree of which one would belong to somebody else if
// any did, the top first.
func placesIn(root string) []string {
	places := []string{root, root + "/.staging", root + "/.locks"}
	for _, path := range []string{"/docker", "/docker/registry", "/docker/registry/v2", layout.Own, layout.Blobs, layout.Blobs + "/sha256", layout.Repositories} {
		places = append(places, root+path)
	}
	for _, parent := range []string{layout.Blobs + "/sha256", layout.Repositories} {
		places = append(places, firstChildren(root+parent)...)
	}
	return places
}

// maxChildren bounds the directories of blobs and of repositories that are checked.
const maxChildren = 16

func firstChildren(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxChildren)
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

func explainForeignOwner(root, path string, err error) error {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || int(st.Uid) == os.Geteuid() {
		return fmt.Errorf("storage.filesystem.rootdirectory: %w", fileerror.Explain(path, err))
	}
	uid, gid := os.Geteuid(), os.Getegid()
	return fmt.Errorf("storage.filesystem.rootdirectory: %s belongs to uid %d, and the registry runs as uid %d, which may not write there: chown -R %d:%d %s, or set storage.maintenance.readonly.enabled to serve pulls only",
		path, st.Uid, uid, uid, gid, root)
}

// missingRoot describes what to do where the root cannot be made.
func missingRoot(root string) error {
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		return nil //nolint:nilerr // the code that opens it reports errors
	}
	parent := filepath.Dir(root)
	for parent != "/" {
		if _, err := os.Stat(parent); err == nil {
			break
		}
		parent = filepath.Dir(parent)
	}
	err := unix.Faccessat(unix.AT_FDCWD, parent, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err == nil || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		return nil
	}
	return fmt.Errorf("storage.filesystem.rootdirectory: %w", fileerror.Explain(root+"/", err)) // the directory is missing, not a file in it
}
