package config

import (
	"errors"
	"os"
	"slices"
	"strings"

	"slipway/shared/config"
)

// ErrNothing is the error of Load when neither a file nor the environment says
// where the images are stored.
var ErrNothing = errors.New("no configuration: name a file with --config or $" + PathVariable +
	" (there is none at " + DefaultPath + "), or a storage in the environment, such as REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=/var/lib/registry")

// Load reads the file and applies environ to it. When file is empty, it is the one that
// REGISTRY_CONFIGURATION_PATH names, or [DefaultPath] if it exists. Without any file the
// environment must name a storage. The report is never nil. With an error, the configuration
// is nil or what could be read: a check names further mistakes in it.
func Load(file string, environ []string) (*Config, *config.Report, error) {
	if file == "" {
		file = lookup(environ, PathVariable)
	}
	if _, err := os.Stat(DefaultPath); file == "" && err == nil {
		file = DefaultPath
	}
	return load(config.Options{File: file, Environ: environ})
}

func load(o config.Options) (*Config, *config.Report, error) {
	o.Prefix, o.Ignore = Prefix, []string{PathVariable, "REGISTRY_VERSION"}
	cfg := Default()
	report, err := config.Load(&cfg, o)
	switch {
	case o.File == "" && len(cfg.Storage.Drivers()) == 0 && onlyStorageMissing(err):
		return nil, report, ErrNothing
	case report.Origins[""] != "" && report.Origins["version"] == "":
		missing := &config.Problem{Key: "version", Text: "is missing; write `version: 0.1`", Origin: o.File}
		err = errors.Join(missing, err)
	}
	if err != nil {
		return &cfg, report, err
	}
	if cfg.Loglevel != "" && report.Origins["log.level"] == "" {
		cfg.Log.Level, report.Origins["log.level"] = cfg.Loglevel, report.Origins["loglevel"]
	}
	report.Warnings = append(report.Warnings, cfg.warnings(report.Origins)...)
	return &cfg, report, nil
}

// onlyStorageMissing reports whether err is the one problem that comes of no
// configuration at all.
func onlyStorageMissing(err error) bool {
	return err != nil && err.Error() == (&config.Problem{Key: "storage", Text: noDriver}).Error()
}

func lookup(environ []string, name string) string {
	i := slices.IndexFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	if i < 0 {
		return ""
	}
	return environ[i][len(name)+1:]
}
