//go:build goolm

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

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

// shown is how many of a room's last events are shown.
const shown = 20

// print shows the last messages of each room.
func (d *device) print(ctx context.Context, out io.Writer) error {
	if err := d.sync(ctx); err != nil {
		return err
	}
	joined, err := d.client.JoinedRooms(ctx)
	if err != nil {
		return err
	}
	for _, room := range joined.JoinedRooms {
		if err := d.printRoom(ctx, out, room); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) printRoom(ctx context.Context, out io.Writer, room id.RoomID) error {
	var name event.RoomNameEventContent
	_ = d.client.StateEvent(ctx, room, event.StateRoomName, "", &name) // it may have none
	fmt.Fprintln(out, cmp.Or(name.Name, room.String()))
	page, err := d.client.Messages(ctx, room, "", "", mautrix.DirectionBackward, nil, shown)
	if err != nil {
		return err
	}
	for i := len(page.Chunk) - 1; i >= 0; i-- {
		e := page.Chunk[i]
		e.RoomID = room
		if text, ok := d.text(ctx, e); ok {
			fmt.Fprintf(out, "  %s: %s\n", e.Sender, strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
	return nil
}

// text is what a person reads of an event; false without anything to read.
func (d *device) text(ctx context.Context, e *event.Event) (string, bool) {
	if e.StateKey != nil || e.Unsigned.RedactedBecause != nil {
		return "", false
	}
	if e.Type.Type == "m.room.encrypted" {
		plain, err := d.decrypt(ctx, e)
		if err != nil {
			return "cannot be read here: " + err.Error(), true
		}
		e = plain
	}
	body, _ := e.Content.Raw["body"].(string)
	return body, e.Type.Type == "m.room.message"
}
