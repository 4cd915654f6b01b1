package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
)

// audited runs do, the change that a command makes, and records it in the audit log, whether it
// succeeded or not. If the log cannot be opened, do doesn't run. A line that cannot be written
// is a warning: the change is made, and an error would say that it isn't.
func audited(cmd *cobra.Command, cfg *config.Config, log *zap.Logger, act audit.Record, do func(auditLog *audit.Log) error) error {
	auditLog, err := app.OpenCommandAudit(cmd.ErrOrStderr(), cfg.Audit, log)
	if err != nil {
		return err
	}
	err = do(auditLog)
	act.Result = audit.ResultOf(err)
	writeOperator(auditLog, act)
	if lost := auditLog.Close(); lost != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the audit log is incomplete: %v\n", lost)
	}
	return err
}

// writeOperator writes what a command has done.
func writeOperator(auditLog *audit.Log, act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), "command line", audit.Operator()
	auditLog.Write(act)
}

// unlessDry returns the audit record of a command, or an empty one for a dry run.
func unlessDry(dry bool, act audit.Record) audit.Record {
	if dry {
		return audit.Record{}
	}
	return act
}

// commandAct returns the audit record of a command, with its name: "retention apply".
func commandAct(cmd *cobra.Command) audit.Record {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return audit.Record{Event: "maintenance", Reference: name}
}
