package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newMessagesCommand() *cobra.Command {
	var base, user, file string
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "Read, as a person would, what arrived in the rooms of an account; invitations are accepted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			r := reader{base: base}
			if err := r.login(cmd.Context(), user, strings.TrimSpace(string(password))); err != nil {
				return err
			}
			return r.show(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&base, "url", "http://127.0.0.1:8008", "the homeserver")
	cmd.Flags().StringVar(&user, "user", "", "account name")
	cmd.Flags().StringVar(&file, "password-file", "", "file with its password")
	return cmd
}

const deviceName = "slipway messages"

// reader is a minimal Matrix client.
type reader struct {
	base, token string
}

// login makes a device that ends with the command: a homeserver answers the same first sync of the same device
// from its cache, for two minutes in Synapse.
func (r *reader) login(ctx context.Context, user, password string) error {
	if user == "" || password == "" {
		return errors.New("--user and --password-file are required")
	}
	var session struct {
		Token string `json:"access_token"`
	}
	err := r.call(ctx, http.MethodPost, "/login", map[string]any{
		"type": "m.login.password", "password": password, "initial_device_display_name": deviceName,
		"identifier": map[string]string{"type": "m.id.user", "user": user},
	}, &session)
	r.token = session.Token
	return err
}

type syncAnswer struct {
	Rooms struct {
		Invite map[string]json.RawMessage `json:"invite"`
		Join   map[string]struct {
			State    events `json:"state"`
			Timeline events `json:"timeline"`
		} `json:"join"`
	} `json:"rooms"`
}

type events struct {
	Events []struct {
		Type    string `json:"type"`
		Sender  string `json:"sender"`
		Content struct {
			Body string `json:"body"`
			Name string `json:"name"`
		} `json:"content"`
	} `json:"events"`
}

// roomName is the latest name among the events; "" if there is none.
func (e events) roomName() string {
	name := ""
	for _, event := range e.Events {
		if event.Type == "m.room.name" {
			name = event.Content.Name
		}
	}
	return name
}

// show prints what there is and ends the device.
func (r *reader) show(ctx context.Context, out io.Writer) error {
	return errors.Join(r.print(ctx, out), r.call(ctx, http.MethodPost, "/logout", struct{}{}, nil))
}

// print shows the last messages of each room.
func (r *reader) print(ctx context.Context, out io.Writer) error {
	var state syncAnswer
	if err := r.call(ctx, http.MethodGet, "/sync?timeout=0", nil, &state); err != nil {
		return err
	}
	for room := range state.Rooms.Invite {
		if err := r.call(ctx, http.MethodPost, "/rooms/"+url.PathEscape(room)+"/join", struct{}{}, nil); err != nil {
			return err
		}
	}
	if len(state.Rooms.Invite) > 0 {
		if err := r.call(ctx, http.MethodGet, "/sync?timeout=0&full_state=true", nil, &state); err != nil {
			return err
		}
	}
	for _, room := range slices.Sorted(maps.Keys(state.Rooms.Join)) {
		joined := state.Rooms.Join[room]
		fmt.Fprintln(out, cmp.Or(joined.Timeline.roomName(), joined.State.roomName(), room))
		for _, e := range joined.Timeline.Events {
			if e.Type == "m.room.message" {
				fmt.Fprintf(out, "  %s: %s\n", e.Sender, strings.ReplaceAll(e.Content.Body, "\n", "\n    "))
			}
		}
	}
	return nil
}

func (r *reader) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+"/_matrix/client/v3"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no homeserver answers at %s; `make run` starts one (%w)", r.base, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
