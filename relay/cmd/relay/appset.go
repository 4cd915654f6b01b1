package main

import (
	"errors"
	"net/http"
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
	settings.String("heartbeat", "", "longest silence before an alarm, such as 5m; 0 means no alarm")
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
		return r.change(cmd, http.MethodPut, "application", args[0], in, "changed")
	})
}
