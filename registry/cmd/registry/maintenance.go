package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/oci"
	"slipway/shared/command"
	"slipway/shared/logging"
)

// environment is the app.Environment of a maintenance command, with its log.
type environment struct {
	*app.Environment
	lines    *logging.Buffer
	auditLog *audit.Log // nil = the command changes nothing, or there is no audit log
}

// onStorage runs do with the storage that the configuration names. act is what do changes, for the
// audit log; without an event do only reads.
func onStorage(cmd *cobra.Command, act audit.Record, do func(*environment) error) error {
	e, err := openEnvironment(cmd, act.Event != "")
	if err != nil {
		return err
	}
	if act.Event == "" {
		err = do(e)
	} else {
		err = audited(cmd, e.Config, e.Log, act, func(auditLog *audit.Log) error {
			e.auditLog = auditLog
			return do(e)
		})
	}
	return errors.Join(refused(err), e.close())
}

// refused marks what a rule or a setting refuses.
func refused(err error) error {
	var told *oci.Error
	if errors.As(err, &told) && (told.Code == oci.CodeDenied || told.Code == oci.CodeUnsupported) {
		return command.Refused(err)
	}
	return err
}

// openEnvironment opens the storage that the configuration names, for a command that
// changes something or only reads. The log goes to stderr.
func openEnvironment(cmd *cobra.Command, changes bool) (*environment, error) {
	cfg, report, err := config.Load(command.ConfigFile(cmd), os.Environ())
	if err != nil {
		return nil, err
	}
	lines := logging.NewBuffer(cmd.ErrOrStderr())
	log, err := logging.New(lines, logging.Config{
		Level: cfg.Log.Level, Format: logging.Format(cfg.Log.Formatter), Fields: cfg.Log.Fields, ReportCaller: cfg.Log.ReportCaller,
	})
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	for _, warning := range report.Warnings {
		log.Warn(warning)
	}
	e, err := app.Open(cmd.Context(), cfg, built(), log, changes)
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	return &environment{Environment: e, lines: lines}, nil
}

// close closes the storage and writes what is left of the log.
func (e *environment) close() error { return errors.Join(e.Close(), e.lines.Close()) }

// notNegative refuses a duration below 0, which a flag may hold.
func notNegative(flag string, d time.Duration) error {
	if d < 0 {
		return command.Usage(fmt.Errorf("%s must not be negative", flag))
	}
	return nil
}
