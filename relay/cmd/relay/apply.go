package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway/relay/internal/client"
	"slipway/shared/command"
	"slipway/shared/plural"
)

// newApplyCommand makes `relay apply`.
func newApplyCommand() *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Bring users and applications to what a file says",
		Long: "Shows what it would create and change so that users, applications, their rooms, templates and other settings are as the YAML file FILE says, asks, and does it. " +
			"A second run changes nothing. Settings, users and applications that the file doesn't name stay as they are. " +
			"The token of a new application is written to its token-file, with mode 0600.",
		Args: cobra.ExactArgs(1),
	}
	command.DryRunFlag(cmd, &dry)
	command.YesFlag(cmd)
	command.JSONFlag(cmd, &asJSON)
	return onRelay(cmd, func(cmd *cobra.Command, r *remote, args []string) error {
		all, err := readApplyFile(args[0])
		if err != nil {
			return err
		}
		p := &applyPlan{remote: r, Changes: []*applyChange{}}
		if err := p.make(cmd.Context(), all); err != nil {
			return err
		}
		if err := p.run(cmd, dry, asJSON); err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), p)
		}
		return nil
	})
}

// applyPlan lists the changes that are still needed, in the order in which they are made.
type applyPlan struct {
	*remote `json:"-"`
	users   map[string]int64 // IDs by name in lower case, 0 before the user is created

	Changes []*applyChange `json:"changes"`
	Applied bool           `json:"applied"`
}

// applyChange creates or changes a user or an application.
type applyChange struct {
	Action string   `json:"action"` // create or change
	Noun   string   `json:"noun"`
	Name   string   `json:"name"`
	Fields []string `json:"fields,omitempty"` // such as "digest: none → 10m"

	path  string         // of what exists
	in    map[string]any // of the request
	want  *wanted
	token bool // write a new token
}

// existing is a user or an application of the relay, with the fields of the API.
type existing map[string]any

func (e existing) text(field string) string { s, _ := e[field].(string); return s }
func (e existing) id() int64                { n, _ := e["id"].(float64); return int64(n) }

// make compares what is wanted with the relay.
func (p *applyPlan) make(ctx context.Context, all []*wanted) error {
	found := map[string][]existing{}
	for _, noun := range nouns {
		var list []existing
		if _, err := p.Do(ctx, http.MethodGet, "/"+noun, nil, &list); err != nil {
			return err
		}
		found[noun] = list
	}
	p.users = map[string]int64{}
	for _, w := range all {
		if w.noun == "user" {
			p.users[strings.ToLower(w.name)] = 0
		}
	}
	for _, u := range found["user"] {
		p.users[strings.ToLower(u.text("name"))] = u.id()
	}
	var errs []error
	for _, w := range all {
		errs = append(errs, p.compare(w, found[w.noun]))
	}
	return command.Usage(errors.Join(errs...))
}

// compare adds the change that w needs, if any.
func (p *applyPlan) compare(w *wanted, all []existing) error {
	now, err := p.find(w, all)
	if err != nil {
		return err
	}
	c := &applyChange{Action: "change", Noun: w.noun, Name: w.name, in: map[string]any{}, want: w}
	if now == nil {
		c.Action, c.in["name"] = "create", w.name
	} else {
		c.path = "/" + w.noun + "/" + strconv.FormatInt(now.id(), 10)
	}
	for _, field := range slices.Sorted(maps.Keys(w.fields)) {
		was, want := any(nil), w.fields[field]
		if now != nil {
			if was = now[field]; w.same(field, was) {
				continue
			}
		}
		c.set(field, was, want)
	}
	if w.owner != "" && (now == nil || !strings.EqualFold(now.text("owner"), w.owner)) {
		if _, known := p.users[strings.ToLower(w.owner)]; !known {
			return w.wrong(w.line, "application %q: there is no user %q, and the file makes none", w.name, w.owner)
		}
		c.Fields = append(c.Fields, "owner: "+w.owner)
	}
	if err := p.compareSecrets(c, now); err != nil {
		return err
	}
	if now == nil || len(c.Fields) > 0 {
		p.Changes = append(p.Changes, c)
	}
	return nil
}

// find returns what exists of a name. An owner that the file names decides between applications of one name.
func (p *applyPlan) find(w *wanted, all []existing) (existing, error) {
	var named []existing
	for _, one := range all {
		if one.text("name") == w.name || w.noun == "user" && strings.EqualFold(one.text("name"), w.name) {
			if w.owner != "" && strings.EqualFold(one.text("owner"), w.owner) {
				return one, nil
			}
			named = append(named, one)
		}
	}
	switch len(named) {
	case 0:
		return nil, nil //nolint:nilnil // none is no error
	case 1:
		return named[0], nil
	}
	return nil, w.wrong(w.line, "there are %d applications %q: name the owner", len(named), w.name)
}

// compareSecrets plans what the files of secrets need. Those of what exists are not compared, because the relay doesn't show them.
func (p *applyPlan) compareSecrets(c *applyChange, now existing) error {
	w := c.want
	if file := w.files["token-file"]; file != "" {
		_, err := os.Stat(file)
		if c.token = now == nil || errors.Is(err, fs.ErrNotExist); c.token {
			c.Fields = append(c.Fields, "token: a new one goes to "+file)
		} else if err != nil {
			return w.wrong(w.line, "%s", err)
		}
	}
	for key, field := range secretFields {
		file := w.files[key]
		if has, _ := now["has_hook_secret"].(bool); file == "" || has || now != nil && w.noun == "user" {
			continue
		}
		secret, err := client.ReadSecret(filepath.Dir(file), filepath.Base(file))
		if err == nil && secret == "" {
			err = fmt.Errorf("%s is missing or empty", file)
		}
		if err != nil {
			return w.wrong(w.line, "%s", err)
		}
		c.Fields, c.in[field] = append(c.Fields, flagName(field)+": from "+file), secret
	}
	if now == nil && w.noun == "user" && w.files["password-file"] == "" {
		return w.wrong(w.line, "user %q does not exist yet: name its password-file", w.name)
	}
	return nil
}

// same reports whether a field has the value that is wanted, in any spelling.
func (w *wanted) same(field string, was any) bool {
	if w.noun == "user" {
		return was == w.fields[field]
	}
	before, err := settingOf(field, was)
	after, err2 := settingOf(field, w.fields[field])
	return err == nil && err2 == nil && reflect.DeepEqual(before, after)
}

func (c *applyChange) set(field string, was, want any) {
	text := flagName(field) + ": "
	if c.path != "" {
		text += shortly(was) + " → "
	}
	c.Fields, c.in[field] = append(c.Fields, text+shortly(want)), want
}

// shortly returns a value as one line.
func shortly(value any) string {
	return cmp.Or(strings.Join(strings.Fields(fmt.Sprint(value)), " "), "none")
}

// run shows the plan, asks, and makes the changes.
func (p *applyPlan) run(cmd *cobra.Command, dry, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		out = io.Discard
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(out, "nothing to do")
		return nil
	}
	for _, c := range p.Changes {
		fmt.Fprintf(out, "%s %s %s\n", c.Action, c.Noun, c.Name)
		for _, field := range c.Fields {
			fmt.Fprintf(out, "    %s\n", field)
		}
	}
	if dry {
		fmt.Fprintf(out, "%s would be made; nothing was changed\n", plural.Of(len(p.Changes), "change"))
		return nil
	}
	if err := command.Confirm(cmd, "Make "+plural.Of(len(p.Changes), "change")+"?"); err != nil {
		return err
	}
	for i, c := range p.Changes {
		if err := p.change(cmd.Context(), c); err != nil {
			return fmt.Errorf("%s %s %s: %w (%d of %d changes are made; run the command again)", c.Action, c.Noun, c.Name, err, i, len(p.Changes))
		}
	}
	p.Applied = true
	fmt.Fprintf(out, "%s made\n", plural.Of(len(p.Changes), "change"))
	return nil
}

// tokenGrace is how long the token that a new one replaces stays valid.
const tokenGrace = time.Hour

func (p *applyPlan) change(ctx context.Context, c *applyChange) error {
	if owner := c.want.owner; owner != "" {
		c.in["owner_id"] = p.users[strings.ToLower(owner)]
	}
	method, path := http.MethodPut, c.path
	if c.Action == "create" {
		method, path = http.MethodPost, "/"+c.Noun
	}
	var answer application
	if len(c.in) > 0 {
		if _, err := p.Do(ctx, method, path, c.in, &answer); err != nil {
			return err
		}
	}
	if c.Noun == "user" {
		p.users[strings.ToLower(c.Name)] = answer.ID
	}
	if !c.token {
		return nil
	}
	if answer.Token == "" {
		if _, err := p.Do(ctx, http.MethodPost, c.path+"/token", map[string]any{"grace": tokenGrace.String()}, &answer); err != nil {
			return err
		}
	}
	file := c.want.files["token-file"]
	dir, err := client.OpenSecrets(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Put(filepath.Base(file), answer.Token), dir.Close())
}
