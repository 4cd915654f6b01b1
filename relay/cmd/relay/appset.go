package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newAppSetCommand returns `relay app set`. Each flag is named after its API field, with hyphens for underscores.
func newAppSetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set ID|NAME", Short: "Change settings of an application", Args: cobra.ExactArgs(1)}
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	settings.String("critical-retry", "", "interval of reminders of critical alerts, such as 5m; 0 means none")
	for _, name := range []string{"title", "text", "priority", "link"} {
		settings.String("template-"+name, "", "template of the "+name+"; empty leaves it as it is")
	}
	settings.String("digest", "", "how long after a message to collect further ones of priority 0 or less in one, such as 10m; 0 means never")
	settings.String("quiet-hours", "", "when priority 1 mentions nobody, such as 22:00-07:00")
	settings.String("time-zone", "", "time zone of the quiet hours, such as Europe/Berlin; UTC if empty")
	settings.Bool("quiet-summary", false, "list the messages that mentioned nobody when the quiet hours end")
	settings.String("heartbeat", "", "longest silence before an alarm, such as 5m, at least 1m; 0 means no alarm")
	settings.String("heartbeat-grace", "", "additional time before the alarm")
	cmd.Flags().AddFlagSet(settings)
	owner := cmd.Flags().String("owner", "", "name or id of the user who owns the application from now on; invite them to its room")
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		in := map[string]any{}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if settings.Lookup(f.Name) != nil {
				in[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String()
				if f.Value.Type() == "bool" {
					in[strings.ReplaceAll(f.Name, "-", "_")] = f.Value.String() == "true"
				}
			}
		})
		if *owner != "" {
			path, err := r.find(cmd.Context(), "user", *owner)
			if err != nil {
				return err
			}
			id, err := strconv.ParseInt(path[strings.LastIndexByte(path, '/')+1:], 10, 64)
			if err != nil {
				return err
			}
			in["owner_id"] = id
		}
		if len(in) == 0 {
			return errors.New("name the settings to change, see --help")
		}
		return r.set(cmd, args[0], in)
	})
}

// set changes settings of an application, and prints them as the relay has understood them.
func (r *remote) set(cmd *cobra.Command, app string, in map[string]any) error {
	path, err := r.find(cmd.Context(), "application", app)
	if err != nil {
		return err
	}
	var now map[string]any
	if _, err := r.Do(cmd.Context(), http.MethodPut, path, in, &now); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "application %s: changed\n", app)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if name == "owner_id" {
			name = "owner"
		}
		value := fmt.Sprint(now[name])
		if value == "" {
			value = "none"
		}
		fmt.Fprintf(out, "%s: %s\n", strings.ReplaceAll(name, "_", "-"), value)
	}
	return nil
}
