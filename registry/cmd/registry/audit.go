package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/registry/internal/retention"
)

// openAudit is nil where the configuration asks for none. stdout stays open. If the disk may
// be full the file is opened at the next line, and lines are lost, and counted, until then.
func openAudit(cfg *config.Audit, stdout io.Writer, mayBeFull bool, log *zap.Logger) (*audit.Log, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // nobody listens
	}
	var sinks []io.WriteCloser
	fail := func(key string, err error) (*audit.Log, error) {
		for _, sink := range sinks {
			err = errors.Join(err, sink.Close())
		}
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if cfg.File != "" {
		file, err := audit.OpenFile(cfg.File, int64(cfg.MaxSize), cfg.Keep)
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if err != nil && (!full || !mayBeFull) {
			return fail("audit.file", err)
		}
		sinks = append(sinks, file)
	}
	if cfg.Syslog != "" {
		sink, err := audit.OpenSyslog(cfg.Syslog)
		if err != nil {
			return fail("audit.syslog", err)
		}
		sinks = append(sinks, sink)
	}
	if cfg.Stdout {
		sinks = append(sinks, audit.Unclosed{Writer: stdout})
	}
	return audit.New(log, sinks...), nil
}

// openCommandAudit is the log for a command beside the server, or without one. It leaves
// the rotation of the file to the server, and writes to stderr instead of stdout, where
// the command's answer goes. The disk may be full: the command may be there to help.
func openCommandAudit(cmd *cobra.Command, cfg *config.Audit, log *zap.Logger) (*audit.Log, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // nobody listens
	}
	own := *cfg
	own.MaxSize = 0
	return openAudit(&own, cmd.ErrOrStderr(), true, log)
}

// audited does what a command changes, and writes it into the audit log, whether it
// succeeded or not. Where that cannot be opened nothing is done.
func audited(cmd *cobra.Command, cfg *config.Config, log *zap.Logger, act audit.Record, do func(acts *audit.Log) error) error {
	acts, err := openCommandAudit(cmd, cfg.Audit, log)
	if err != nil {
		return err
	}
	err = do(acts)
	act.Result = audit.ResultOf(err)
	writeOperator(acts, act)
	return errors.Join(err, acts.Close())
}

// writeOperator writes what a command has done.
func writeOperator(acts *audit.Log, act audit.Record) {
	act.Time, act.Who, act.From = time.Now(), "command line", operator()
	acts.Write(act)
}

// commandAct is what the command does, by its name: "retention apply".
func commandAct(cmd *cobra.Command) audit.Record {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return audit.Record{Event: "maintenance", Reference: name}
}

// deletedTag is a tag that a rule of retention has deleted.
func deletedTag(v *retention.Verdict) audit.Record {
	return audit.Record{Event: "delete", Repository: string(v.Repository), Reference: string(v.Tag), Digest: string(v.Digest), Reason: v.Why, Result: audit.Succeeded}
}

// operator is who runs the command: user@host.
func operator() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// watchAudit counts the lines that are lost.
func watchAudit(metrics *prometheus.Registry, acts *audit.Log) {
	if metrics == nil {
		return
	}
	metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "registry_audit_lost_lines_total", Help: "Lines of the audit log that could not be written.",
	}, func() float64 { return float64(acts.Lost()) }))
}
