package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/audit"
	"slipway/registry/internal/config"
	"slipway/shared/programtest"
)

// A command works though the disk of the audit log is full. The lines that are lost are
// counted, those of single deletions too, and it fails unless a line says so.
func TestCommands_FullAuditDisk(t *testing.T) {
	dir := programtest.Mount(t, "tmpfs", "size=1m,nr_inodes=10")
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint("filler", i)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	cfg := &config.Config{Audit: &config.Audit{File: path}}
	command := func(helps bool) error {
		return audited(&cobra.Command{Use: "registry"}, cfg, zap.NewNop(), audit.Record{Event: "maintenance", Reference: "test"}, func(acts *audit.Log) error {
			writeOperator(acts, audit.Record{Event: "delete"})
			for end := time.Now().Add(time.Minute); acts.Lost() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the line of a deletion is not counted as lost")
				}
			}
			if helps {
				return os.Remove(filepath.Join(dir, "filler0"))
			}
			return nil
		})
	}
	if err := command(false); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "lost 2 lines of the audit log") {
		t.Errorf("got %v", err)
	}
	if err := command(true); err != nil {
		t.Error(err)
	}
	var got []string
	for _, r := range readAudit(t, path) {
		got = append(got, fmt.Sprint(r.Event, r.Lost, r.Result))
	}
	if want := []string{"lost1", "maintenance0succeeded"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
