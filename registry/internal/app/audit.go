package app

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
)

// openAudit returns nil if the configuration asks for none. stdout stays open. If the disk may
// be full the file is opened at the next line, and lines are lost, and counted, until then.
func openAudit(cfg *config.Audit, stdout io.Writer, mayBeFull bool, log *zap.Logger) (*audit.Log, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // no audit log is configured
	}
	var sinks []io.WriteCloser
	if cfg.File != "" {
		file, err := audit.OpenFile(cfg.File)
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if err != nil && (!full || !mayBeFull) {
			return nil, errors.Join(fmt.Errorf("audit.file: %w", err), file.Close())
		}
		sinks = append(sinks, file)
	}
	if cfg.Stdout {
		sinks = append(sinks, audit.Unclosed{Writer: stdout})
	}
	return audit.New(log, sinks...), nil
}

// OpenCommandAudit opens the audit log for a command, whether or not a server is running. It writes to
// stderr instead of stdout, where the command's answer goes.
// The disk may be full: the command may be there to help.
func OpenCommandAudit(stderr io.Writer, cfg *config.Audit, log *zap.Logger) (*audit.Log, error) {
	return openAudit(cfg, stderr, true, log)
}

// watchAudit counts the lines that are lost.
func watchAudit(metrics *prometheus.Registry, auditLog *audit.Log) {
	if metrics == nil {
		return
	}
	metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "registry_audit_lost_lines_total", Help: "Lines of the audit log that could not be written.",
	}, func() float64 { return float64(auditLog.Lost()) }))
}
