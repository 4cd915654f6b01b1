package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway/relay/internal/client"
	"slipway/shared/command"
)

// appSettings are the flags for the settings of an application.
type appSettings struct {
	flags *pflag.FlagSet
	owner string
	image string
}

// fieldNames are the API's names of the settings whose flags, or keys in a file, have other names. Elsewhere underscores are hyphens.
var fieldNames = map[string]string{"room": "room_id", "priority": "default_priority", "format": "default_format", "admin": "is_admin"}

func fieldName(flag string) string {
	if name := fieldNames[flag]; name != "" {
		return name
	}
	return strings.ReplaceAll(flag, "-", "_")
}

func flagName(field string) string {
	for flag, name := range fieldNames {
		if name == field {
			return flag
		}
	}
	return strings.ReplaceAll(field, "_", "-")
}

// addSettings adds a flag for each setting to a command that makes or changes an application.
func addSettings(cmd *cobra.Command) *appSettings {
	s := &appSettings{flags: pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	f := s.flags
	f.String("room", "", "id or alias of the room; the bot makes one for a new application without it")
	f.String("description", "", "what the application is")
	f.String("priority", "", "priority of messages that have none: min, low, normal, high, max, or -2 to 2")
	f.String("priority-scale", "", "scale of numbers that senders give: auto, native (-2 to 2) or gotify (0 to 10)")
	f.String("format", "", "format of messages that name none: auto, markdown, plain or html")
	f.String("show-sender", "", "whether titles begin with the application's name: auto, always or never")
	f.String("mention", "", "whom priorities 1 and 2 mention: auto, room, owner, none, or Matrix IDs")
	f.Int("rate-limit", 0, "messages a minute; 0 for the limit of the configuration")
	f.Bool("strict-compatibility", false, "make tokens of 15 characters, for clients that check Gotify's form (Watchtower)")
	f.String("lifecycle", "", "what a change or the end of an alert becomes: edit, thread or new")
	f.Bool("group-threads", false, "the alerts of a group of Alertmanager or Grafana share a thread")
	f.String("critical-retry", "", "interval of reminders of critical alerts, such as 5m; 0 for none")
	f.Int("escalate-after", 0, "reminders that each entry of --escalate-to gets; 0 for no escalation")
	f.String("escalate-to", "", "Matrix IDs, or rooms of the owner's applications, with spaces between; empty for none")
	for _, name := range []string{"title", "text", "priority", "link"} {
		f.String("template-"+name, "", "template of the "+name+"; empty for none")
	}
	f.String("digest", "", "how long after a message to collect further ones of priority 0 or less in one, such as 10m; 0 for never")
	f.String("repository-digest", "", "the same for a registry's messages about one repository, such as 10m; 0 for the time of --digest")
	f.String("quiet-hours", "", "when priority 1 mentions nobody, such as 22:00-07:00; empty for never")
	f.String("time-zone", "", "time zone of the quiet hours, such as Europe/Berlin; UTC if empty")
	f.Bool("quiet-summary", false, "list the messages that mentioned nobody when the quiet hours end")
	f.String("heartbeat", "", "longest silence before an alarm, such as 5m, at least 1m; 0 for no alarm")
	f.String("heartbeat-grace", "", "additional time before the alarm; 0 for none")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().StringVar(&s.owner, "owner", "", "name or id of the user who owns the application; invite them to its room")
	cmd.Flags().StringVar(&s.image, "image", "", "file of the image that people see on the pages; empty for none")
	return s
}

// input returns the settings whose flags are given, as the API takes them.
func (s *appSettings) input(ctx context.Context, cmd *cobra.Command, r *remote) (map[string]any, error) {
	in := map[string]any{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if s.flags.Lookup(f.Name) == nil {
			return
		}
		in[fieldName(f.Name)] = valueOf(f)
	})
	if s.owner != "" {
		path, err := r.find(ctx, "user", s.owner)
		if err != nil {
			return nil, err
		}
		if in["owner_id"], err = strconv.ParseInt(path[strings.LastIndexByte(path, '/')+1:], 10, 64); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// valueOf returns the value of a flag as JSON has it. A priority may be a number or a word.
func valueOf(f *pflag.Flag) any {
	text := f.Value.String()
	if n, err := strconv.Atoi(text); err == nil && (f.Value.Type() == "int" || f.Name == "priority") {
		return n
	}
	if f.Value.Type() == "bool" {
		return text == "true"
	}
	return text
}

// setImage sets or removes the image of the application at path, if the flag is given.
func (s *appSettings) setImage(cmd *cobra.Command, r *remote, path string) error {
	if !cmd.Flags().Changed("image") {
		return nil
	}
	if s.image == "" {
		_, err := r.Do(cmd.Context(), http.MethodDelete, path+"/image", nil, nil)
		return err
	}
	f, err := os.Open(s.image)
	if err != nil {
		return err
	}
	defer f.Close()
	const maxImage = 256<<10 + 1 // the relay refuses what is longer
	content, err := io.ReadAll(io.LimitReader(f, maxImage))
	if err != nil {
		return err
	}
	_, err = r.Do(cmd.Context(), http.MethodPost, path+"/image", client.File(content), nil)
	return err
}

func newAppSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set ID|NAME", Short: "Change settings of an application", Args: cobra.ExactArgs(1), SuggestFor: []string{"rename", "update", "edit"},
		Long: "Changes the settings whose flags are given, and shows them as the relay has understood them. An empty value clears a setting.",
	}
	var asJSON bool
	s := addSettings(cmd)
	s.flags.String("name", "", "new name")
	cmd.Flags().AddFlag(s.flags.Lookup("name"))
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		in, err := s.input(cmd.Context(), cmd, r)
		if err != nil {
			return err
		}
		if len(in) == 0 && !cmd.Flags().Changed("image") {
			return command.Usage(errors.New("name the settings to change, see --help"))
		}
		path, err := r.find(cmd.Context(), "application", args[0])
		if err != nil {
			return err
		}
		if err := s.setImage(cmd, r, path); err != nil {
			return err
		}
		var now map[string]any
		return r.show(cmd, asJSON, http.MethodPut, path, in, &now, func(out io.Writer) error {
			fmt.Fprintf(out, "application %s: changed\n", args[0])
			return printSettings(out, now, slices.Sorted(maps.Keys(in)))
		})
	})
}

func newAppShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show ID|NAME", Short: "Show the settings of an application", Args: cobra.ExactArgs(1)}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		path, err := r.find(cmd.Context(), "application", args[0])
		if err != nil {
			return err
		}
		var now map[string]any
		return r.show(cmd, asJSON, http.MethodGet, path, nil, &now, func(out io.Writer) error {
			return printSettings(out, now, slices.Sorted(maps.Keys(now)))
		})
	})
}

// printSettings prints fields of an application under the names of their flags.
func printSettings(out io.Writer, app map[string]any, names []string) error {
	for _, name := range names {
		if name == "owner_id" {
			if name = "owner"; slices.Contains(names, name) {
				continue
			}
		}
		value := fmt.Sprint(app[name])
		if n, ok := app[name].(float64); ok {
			value = strconv.FormatFloat(n, 'f', -1, 64)
		}
		if value == "" {
			value = "none"
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", flagName(name), value); err != nil {
			return err
		}
	}
	return nil
}
