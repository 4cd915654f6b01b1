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

// audited does what a command changes, and writes it into the audit log, whether it
// succeeded or not. Where that cannot be opened nothing is done. A line that cannot be written
// is a warning: the change is made, and an error would say that it isn't.
func audited(cmd *cobra.Command, cfg *config.Config, log *zap.Logger, act audit.Record, do func(acts *audit.Log) error) error {
	acts, err := app.OpenCommandAudit(cmd.ErrOrStderr(), cfg.Audit, log)
	if err != nil {
		return err
	}
	err = do(acts)
	act.Result = audit.ResultOf(err)
	writeOperator(acts, act)
	if lost := acts.Close(); lost != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the audit log is incomplete: %v\n", lost)
	}
	return err
}

// writeOperator writes what a command has done.
func writeOperator(acts *audit.Log, act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), "command line", audit.Operator()
	acts.Write(act)
}

// unlessDry is the act of a command, or none if that changes nothing.
func unlessDry(dry bool, act audit.Record) audit.Record {
	if dry {
		return audit.Record{}
	}
	return act
}

// commandAct is what the command does, by its name: "retention apply".
func commandAct(cmd *cobra.Command) audit.Record {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return audit.Record{Event: "maintenance", Reference: name}
}
