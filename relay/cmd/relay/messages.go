package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/format"
	"slipway/relay/internal/post"
	"slipway/shared/command"
	"slipway/shared/duration"
	"slipway/shared/plural"
	"slipway/shared/web"
)

// newMessagesCommand returns `relay messages`, which lists, shows, withdraws and redelivers messages as the configured
// administrator.
func newMessagesCommand() *cobra.Command {
	return command.Group(
		"messages", "List, show, withdraw and redeliver messages",
		"Shows and changes messages as the configured administrator, through the running relay or, if none runs, in its database.",
		newMessagesListCommand(), newMessagesShowCommand(),
		messagesChange{
			verb: "withdraw", short: "Withdraw messages", long: "Withdraws messages: those waiting are not sent, those sent are removed from their rooms.", states: post.CancellableStates,
			method: http.MethodDelete, all: "/message/withdraw", done: "withdrawn", suggest: []string{"cancel", "delete"},
		}.command(),
		messagesChange{
			verb: "redeliver", short: "Deliver messages again", long: "Delivers messages again. Those waiting are tried at once.", states: post.RedeliverableStates,
			method: http.MethodPost, suffix: "/redeliver", all: "/message/redeliver", done: "queued again", suggest: []string{"retry"},
		}.command(),
	)
}

// messagesFilter are the flags that select messages.
type messagesFilter struct{ app, state, search, since, until string }

func (f *messagesFilter) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.app, "app", "", "of this application, by name or id")
	cmd.Flags().StringVar(&f.state, "state", "", "in these states, separated by commas: "+post.AllOf(post.States))
	cmd.Flags().StringVar(&f.search, "search", "", "with this text in title or message")
	cmd.Flags().StringVar(&f.since, "since", "", "accepted since: 2006-01-02, 2006-01-02T15:04:05Z, or a time back from now such as 24h or 7d")
	cmd.Flags().StringVar(&f.until, "until", "", "accepted until: 2006-01-02, 2006-01-02T15:04:05Z, or a time back from now such as 24h or 7d")
}

// query returns the filter as query parameters of the API.
func (f *messagesFilter) query(ctx context.Context, r *remote) (url.Values, error) {
	q := url.Values{}
	if f.app != "" {
		path, err := r.find(ctx, "application", f.app)
		if err != nil {
			return nil, err
		}
		q.Set("appid", path[strings.LastIndexByte(path, '/')+1:])
	}
	for name, text := range map[string]string{"state": f.state, "q": f.search} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		t, err := timeOf(text, time.Now())
		if err != nil {
			return nil, command.Usage(fmt.Errorf("--%s: %w", name, err))
		}
		q.Set(name, t.Format(time.RFC3339))
	}
	return q, nil
}

// timeOf parses an RFC 3339 time, a UTC date, or a duration before now.
func timeOf(text string, now time.Time) (time.Time, error) {
	if ago, err := duration.Parse(text); err == nil {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return now, fmt.Errorf("%q is not a time such as 2006-01-02, 2006-01-02T15:04:05Z, 24h or 7d", text)
}

// messageJSON is the part of the API's message object that the commands use.
type messageJSON struct {
	ID          int64      `json:"id"`
	Application string     `json:"application"`
	Title       string     `json:"title"`
	Message     string     `json:"message"`
	ContentType string     `json:"content_type"`
	Priority    int        `json:"priority"`
	Date        time.Time  `json:"date"`
	Status      post.State `json:"status"`
	Attempts    int        `json:"attempts"`
	Next        string     `json:"next_attempt_at"`
	Error       string     `json:"last_error"`
	Room        string     `json:"room_id"`
	Event       string     `json:"event_id"`
	Sent        string     `json:"sent_at"`
	Removal     string     `json:"removal"`
	Attachments []struct {
		Name string `json:"name"`
		Type string `json:"type"`
		Size int64  `json:"size"` // bytes
	} `json:"attachments"`
}

// text is the body as a terminal shows it: HTML without its tags, anything else as it was sent.
func (m *messageJSON) text() string {
	if m.ContentType != format.HTML {
		return m.Message
	}
	_, text := format.Body(m.ContentType, m.Message)
	return text
}

func newMessagesListCommand() *cobra.Command {
	var f messagesFilter
	var limit int
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List messages, newest first", Args: cobra.NoArgs}
	f.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "number of messages, 1 to 200")
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, _ []string) error {
		q, err := f.query(cmd.Context(), r)
		if err != nil {
			return err
		}
		q.Set("limit", strconv.Itoa(limit))
		var page messagesPage[messageJSON]
		return r.show(cmd, asJSON, http.MethodGet, "/message?"+q.Encode(), nil, &page, func(out io.Writer) error { return printMessages(out, page.Messages) })
	})
}

// messagesPage is the API's list of messages.
type messagesPage[Message any] struct {
	Messages []Message
	Paging   struct {
		Since int64 // before of the next page; 0 at the end
	}
}

func printMessages(out io.Writer, messages []messageJSON) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tACCEPTED\tAPPLICATION\tSTATE\tMESSAGE\tREASON")
	for _, m := range messages {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", m.ID, m.Date.UTC().Format(time.RFC3339), m.Application, m.Status, firstLine(m.Title, m.text()), m.Error)
	}
	return w.Flush()
}

// firstLine is the beginning of a message.
func firstLine(title, text string) string {
	line := []rune(strings.Join(strings.Fields(title+" "+text[:min(len(text), 400)]), " "))
	if len(line) > 50 {
		return string(line[:49]) + "…"
	}
	return string(line)
}

func newMessagesShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "show ID", Short: "Show a message with its state", Args: cobra.ExactArgs(1)}
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		var m messageJSON
		return r.show(cmd, asJSON, http.MethodGet, "/message/"+url.PathEscape(args[0]), nil, &m, m.print)
	})
}

func (m *messageJSON) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, line := range [][2]string{
		{"message", strconv.FormatInt(m.ID, 10)},
		{"application", m.Application},
		{"state", string(m.Status)},
		{"removal", m.Removal},
		{"reason", m.Error},
		{"next attempt", m.Next},
		{"accepted", m.Date.UTC().Format(time.RFC3339)},
		{"sent", m.Sent},
		{"attempts", strconv.Itoa(m.Attempts)},
		{"priority", strconv.Itoa(m.Priority)},
		{"room", m.Room},
		{"event", m.Event},
		{"title", m.Title},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
		}
	}
	for _, a := range m.Attachments {
		fmt.Fprintf(w, "attachment\t%s (%s, %s)\n", a.Name, a.Type, web.Size(a.Size))
	}
	fmt.Fprintf(w, "\n%s\n", m.text())
	return w.Flush()
}

// messagesChange is a command that changes the messages given by id, or all that the filter selects.
type messagesChange struct {
	verb, short, long string
	suggest           []string
	states            []post.State
	method, suffix    string // of the request for one message
	all               string // path of the request for all that a filter selects
	done              string
}

func (c messagesChange) command() *cobra.Command {
	var f messagesFilter
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:        c.verb + " [ID]...",
		Short:      c.short,
		Long:       c.long + " Give their IDs, or select them by --state " + post.OneOf(c.states) + " and the other filters.",
		Args:       cobra.ArbitraryArgs,
		SuggestFor: c.suggest,
	}
	f.addFlags(cmd)
	command.DryRunFlag(cmd, &dry)
	command.YesFlag(cmd)
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		switch {
		case (len(args) == 0) == (f.state == ""):
			return command.Usage(errors.New("name messages by their ids, or select them by --state"))
		case len(args) == 0:
			return c.changeAll(cmd, r, f, dry, asJSON)
		case dry:
			return command.Usage(errors.New("--dry-run is for messages that --state selects; messages show shows one"))
		}
		return c.changeEach(cmd, r, args, asJSON)
	})
}

// changed is the JSON of a command that changes messages.
type changed struct {
	Done     int               `json:"done"`
	Messages []json.RawMessage `json:"messages,omitempty"` // those named by id, as they are now; of --dry-run those that would be changed
}

func (c messagesChange) changeEach(cmd *cobra.Command, r *remote, ids []string, asJSON bool) error {
	n := 0
	var all changed
	for _, id := range ids {
		var m messageJSON
		var raw json.RawMessage
		if _, err := r.Do(cmd.Context(), c.method, "/message/"+url.PathEscape(id)+c.suffix, nil, &raw); err != nil {
			return fmt.Errorf("message %s: %w", id, err)
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return err
		}
		all.Done, all.Messages = all.Done+1, append(all.Messages, raw)
		switch {
		case asJSON:
		case m.Status == post.StateRedacted:
			fmt.Fprintf(cmd.OutOrStdout(), "message %d was sent and is removed from its room\n", m.ID)
		case m.Status == post.StateSent && m.Removal != "":
			fmt.Fprintf(cmd.OutOrStdout(), "message %d was sent and is being removed from its room\n", m.ID)
		default:
			n++
		}
	}
	if asJSON {
		return command.WriteJSON(cmd.OutOrStdout(), all)
	}
	if n > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%d %s\n", n, c.done)
	}
	return nil
}

// changeAll changes the messages that the filter selects, after a confirmation. With dry it only lists them.
func (c messagesChange) changeAll(cmd *cobra.Command, r *remote, f messagesFilter, dry, asJSON bool) error {
	q, err := f.query(cmd.Context(), r)
	if err != nil {
		return err
	}
	if dry && asJSON {
		all, err := selected[json.RawMessage](cmd.Context(), r, q)
		if err != nil {
			return err
		}
		return command.WriteJSON(cmd.OutOrStdout(), changed{Messages: all})
	}
	selected, err := selected[messageJSON](cmd.Context(), r, q)
	if err != nil {
		return err
	}
	if dry {
		if err := printMessages(cmd.OutOrStdout(), selected); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s would be %s; nothing was changed\n", plural.Of(len(selected), "message"), c.done)
		return err
	}
	if len(selected) > 0 {
		if err := command.Confirm(cmd, fmt.Sprintf("%s: %s?", c.short, plural.Of(len(selected), "message"))); err != nil {
			return err
		}
	}
	n := 0
	for more := true; more && err == nil; {
		var answer struct {
			Done int
			More bool
		}
		_, err = r.Do(cmd.Context(), http.MethodPost, c.all+"?"+q.Encode(), nil, &answer)
		n, more = n+answer.Done, answer.More && answer.Done > 0
	}
	return errors.Join(err, command.Report(cmd, asJSON, changed{Done: n}, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "%d %s\n", n, c.done)
		return err
	}))
}

// selected returns all messages that a filter selects, newest first.
func selected[Message any](ctx context.Context, r *remote, q url.Values) (all []Message, err error) {
	page := maps.Clone(q)
	page.Set("limit", "200")
	for {
		var answer messagesPage[Message]
		if _, err := r.Do(ctx, http.MethodGet, "/message?"+page.Encode(), nil, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Messages...)
		if answer.Paging.Since == 0 {
			return all, nil
		}
		page.Set("before", strconv.FormatInt(answer.Paging.Since, 10))
	}
}
