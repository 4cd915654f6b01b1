package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"slipway/registry/internal/app"
	"slipway/registry/internal/audit"
	"slipway/registry/internal/bytesize"
	"slipway/registry/internal/config"
	"slipway/registry/internal/notify"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newEventsCommand returns the `registry events` command, for the queues of notifications.
func newEventsCommand() *cobra.Command {
	return command.Group("events", "List or delete the events that wait for notification endpoints", "", newEventsListCommand(), newEventsDeleteCommand())
}

func newEventsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the waiting events of each endpoint, and why they wait",
		Long: "Shows for each endpoint how many events wait, since when, why the last delivery failed, and when the next attempt is. " +
			"It asks running registries on this machine, and reads the queues of stopped ones. Each replica has its own queue.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, base, err := eventsConfig(cmd)
			if err != nil {
				return err
			}
			reports, failed := notify.Read(cmd.Context(), base)
			report := newEventsReport(cfg, base, reports)
			err = command.Report(cmd, asJSON, report, func(out io.Writer) error { return report.print(out, time.Now()) })
			return errors.Join(failed, err)
		},
	}
	command.JSONFlag(cmd, &asJSON)
	return cmd
}

func newEventsDeleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "delete ENDPOINT",
		SuggestFor: []string{"drop"},
		Short:      "Delete the events that wait for an endpoint",
		Long:       "Deletes the events that wait for an endpoint, through the registry if one runs. They are not sent.",
		Args:       cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, base, err := eventsConfig(cmd)
			if err != nil {
				return err
			}
			if err := command.Confirm(cmd, "Delete the events that wait for "+args[0]+"?"); err != nil {
				return err
			}
			return audited(cmd, cfg, zap.NewNop(), commandAct(cmd), func(*audit.Log) error {
				n, err := notify.Drop(cmd.Context(), base, args[0])
				if err == nil && n == 0 {
					err = fmt.Errorf("no events wait for %q", args[0])
				}
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "deleted %s for %s\n", plural.Of(n, "event"), args[0])
				}
				return err
			})
		},
	}
	command.YesFlag(cmd)
	return cmd
}

// eventsConfig loads the configuration and returns where the queues are.
func eventsConfig(cmd *cobra.Command) (*config.Config, string, error) {
	cfg, _, err := config.Load(command.ConfigFile(cmd), os.Environ())
	if err != nil {
		return nil, "", err
	}
	base := app.EventQueue(cfg)
	if base == "" {
		return nil, "", errors.New("events are queued in the registry's memory; set notifications.queue.directory to keep them on disk and list them here")
	}
	return cfg, base, nil
}

// eventsReport is the output of `registry events list`.
type eventsReport struct {
	Directory string        `json:"directory"`
	Endpoints []eventsEntry `json:"endpoints"`
}

type eventsEntry struct {
	notify.Report
	Configured bool `json:"configured"`
	Disabled   bool `json:"disabled,omitempty"`
}

// newEventsReport joins the reports of the queues and the configured endpoints.
func newEventsReport(cfg *config.Config, base string, reports []notify.Report) *eventsReport {
	report := &eventsReport{Directory: base, Endpoints: []eventsEntry{}}
	seen := map[string]bool{}
	for _, r := range reports {
		entry := eventsEntry{Report: r}
		for _, e := range cfg.Notifications.Endpoints {
			if e.Name == r.Endpoint {
				entry.Configured, entry.Disabled = true, e.Disabled
			}
		}
		seen[r.Endpoint] = true
		report.Endpoints = append(report.Endpoints, entry)
	}
	for _, e := range cfg.Notifications.Endpoints {
		if !seen[e.Name] {
			report.Endpoints = append(report.Endpoints, eventsEntry{Report: notify.Report{Endpoint: e.Name}, Configured: true, Disabled: e.Disabled})
		}
	}
	return report
}

func (r *eventsReport) print(out io.Writer, now time.Time) error {
	if len(r.Endpoints) == 0 {
		_, err := fmt.Fprintln(out, "no notification endpoints are configured, and no events are waiting")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENDPOINT\tCHANGES\tPULLS\tBYTES\tOLDEST\tSTATE")
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", e.Endpoint, e.Changes, e.Pulls, bytesize.Text(e.Bytes), e.age(now), e.state(now))
	}
	return t.Flush()
}

func (e *eventsEntry) age(now time.Time) string {
	if e.First == nil {
		return "-"
	}
	return now.Sub(e.First.Time).Round(time.Second).String()
}

// state describes the state of the endpoint in one sentence.
func (e *eventsEntry) state(now time.Time) string {
	var s string
	switch {
	case e.Disabled:
		s = "disabled"
	case !e.Configured:
		s = "not configured"
	case e.Failures > 0:
		s = fmt.Sprintf("%s (%s since %s)", e.Error, plural.Of(e.Failures, "failure"), e.Since.Format(time.RFC3339))
		if wait := e.Next.Sub(now).Round(time.Second); e.Serving && wait > 0 {
			s += ", next try in " + wait.String()
		}
	default:
		s = "ok"
	}
	if e.File != "" && !e.Serving {
		s += "; no running registry sends them"
	}
	if e.Dropped > 0 {
		s += fmt.Sprintf("; %s dropped because the queue was full", plural.Of(e.Dropped, "event"))
	}
	return s
}
