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
	"slipway/registry/internal/audit/audittest"
	"slipway/registry/internal/config"
	"slipway/shared/programtest"
)

// A command works though the disk of the audit log is full. The lines that are lost are
// counted, those of single deletions too, and told on standard error unless a line of the log does.
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
	command := func(helps bool) (stderr string) {
		var told strings.Builder
		cmd := &cobra.Command{Use: "registry"}
		cmd.SetErr(&told)
		err := audited(cmd, cfg, zap.NewNop(), audit.Record{Event: "maintenance", Reference: "test"}, func(acts *audit.Log) error {
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
		if err != nil {
			t.Error(err)
		}
		return told.String()
	}
	if got := command(false); !strings.Contains(got, "warning: the audit log is incomplete: lost 2 lines of the audit log: ") || !strings.Contains(got, syscall.ENOSPC.Error()) {
		t.Errorf("standard error: %q", got)
	}
	if got := command(true); strings.Contains(got, "warning") {
		t.Errorf("standard error: %q", got)
	}
	var got []string
	for _, r := range audittest.Read(t, path) {
		got = append(got, fmt.Sprint(r.Event, r.Lost, r.Result))
	}
	if want := []string{"lost1", "maintenance0succeeded"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
