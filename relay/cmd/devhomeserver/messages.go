//go:build goolm

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

func newMessagesCommand() *cobra.Command {
	var base, user, file, dir string
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "Read, as a person would, what arrived in the rooms of an account; invitations are accepted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			d, err := openDevice(cmd.Context(), login{base: base, user: user, password: strings.TrimSpace(string(password)), dir: dir})
			if err != nil {
				return err
			}
			defer d.close()
			return d.print(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&base, "url", "http://127.0.0.1:8008", "the homeserver")
	cmd.Flags().StringVar(&user, "user", "", "account name")
	cmd.Flags().StringVar(&file, "password-file", "", "`FILE` with its password")
	cmd.Flags().StringVar(&dir, "device", "", "`DIRECTORY` of the account's device, which the first call makes: it reads what is sent from then on")
	for _, name := range []string{"user", "password-file", "device"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}

const (
	shown  = 20        // messages of a room, the last ones
	looked = 5 * shown // events among which these are: edits replace messages
)

// print shows the last messages of each room.
func (d *device) print(ctx context.Context, out io.Writer) error {
	if err := d.sync(ctx, 0); err != nil {
		return err
	}
	joined, err := d.client.JoinedRooms(ctx)
	if err != nil {
		return err
	}
	names := map[id.RoomID]string{}
	for _, room := range joined.JoinedRooms {
		var name event.RoomNameEventContent
		_ = d.client.StateEvent(ctx, room, event.StateRoomName, "", &name) // it may have none
		names[room] = cmp.Or(name.Name, room.String())
	}
	slices.SortFunc(joined.JoinedRooms, func(a, b id.RoomID) int { return cmp.Or(cmp.Compare(names[a], names[b]), cmp.Compare(a, b)) })
	for _, room := range joined.JoinedRooms {
		fmt.Fprintln(out, names[room])
		if err := d.printRoom(ctx, out, room); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) printRoom(ctx context.Context, out io.Writer, room id.RoomID) error {
	page, err := d.client.Messages(ctx, room, "", "", mautrix.DirectionBackward, nil, looked)
	if err != nil {
		return err
	}
	var lines []string
	byEvent := map[id.EventID]int{} // the line of a message or, if that is older than the page, of its first edit
	for _, e := range slices.Backward(page.Chunk) {
		e.RoomID = room
		text, edited, ok := d.text(ctx, e)
		if !ok {
			continue
		}
		line := fmt.Sprintf("  %s %s: %s", time.UnixMilli(e.Timestamp).Format(time.DateTime), e.Sender, strings.ReplaceAll(text, "\n", "\n    "))
		if edited != "" {
			line += " (edited)"
		}
		shown := cmp.Or(edited, e.ID)
		if i, ok := byEvent[shown]; ok {
			lines[i] = line
			continue
		}
		byEvent[shown] = len(lines)
		lines = append(lines, line)
	}
	for _, line := range lines[max(0, len(lines)-shown):] {
		fmt.Fprintln(out, line)
	}
	return nil
}

// text returns what a person reads of an event and, for an edit, the ID of the event that it replaces; false without anything to read.
func (d *device) text(ctx context.Context, e *event.Event) (text string, edited id.EventID, ok bool) {
	if e.StateKey != nil || e.Unsigned.RedactedBecause != nil {
		return "", "", false
	}
	edited = replaced(e)
	if e.Type.Type == "m.room.encrypted" {
		plain, err := d.decrypt(ctx, e)
		if err != nil {
			return "cannot be read here: " + err.Error(), "", true
		}
		e = plain
		edited = cmp.Or(edited, replaced(e))
	}
	content := e.Content.Raw
	if latest, ok := content["m.new_content"].(map[string]any); ok && edited != "" {
		content = latest
	}
	text, _ = content["body"].(string)
	return text, edited, e.Type.Type == "m.room.message"
}

// replaced returns the ID of the event that e replaces; "" if e is no edit.
func replaced(e *event.Event) id.EventID {
	relation, _ := e.Content.Raw["m.relates_to"].(map[string]any)
	if relation["rel_type"] != string(event.RelReplace) {
		return ""
	}
	target, _ := relation["event_id"].(string)
	return id.EventID(target)
}
