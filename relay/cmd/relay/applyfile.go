package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"slipway/relay/internal/account"
	"slipway/relay/internal/request"
	"slipway/relay/internal/store"
	"slipway/shared/command"
	"slipway/shared/filewatch"
)

// nouns are what an apply file lists, in the order in which it is made.
var nouns = []string{"user", "application"}

// wanted is a user or an application of an apply file. Its keys are the flags of `relay user set` or `relay app set`, and files of secrets.
type wanted struct {
	keys map[string]yaml.Node
	path string // of the file
	line int

	noun, name string
	owner      string            // of an application; "" keeps it
	fields     map[string]any    // as the API takes them, without the name
	files      map[string]string // of secrets, by key
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *wanted) UnmarshalYAML(n *yaml.Node) error {
	w.line = n.Line
	return n.Decode(&w.keys)
}

func (w *wanted) wrong(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", w.path, line, fmt.Sprintf(format, args...))
}

var goType = regexp.MustCompile(` into [^\s]+`) // in errors of yaml

// readApplyFile reads and checks a file. Errors name its lines, all of them.
func readApplyFile(path string) (all []*wanted, err error) {
	content, err := filewatch.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lists map[string][]wanted
	if err := yaml.Unmarshal(content, &lists); err != nil {
		return nil, command.Usage(fmt.Errorf("%s: %s", path, goType.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")))
	}
	var errs []error
	if len(lists) == 0 {
		errs = append(errs, fmt.Errorf("%s: the file is empty: it needs users or applications", path))
	}
	for _, noun := range nouns {
		for i := range lists[noun+"s"] {
			w := &lists[noun+"s"][i]
			w.path, w.noun = path, noun
			errs = append(errs, w.read())
			for _, other := range all {
				if other.noun == noun && other.name == w.name && strings.EqualFold(other.owner, w.owner) {
					errs = append(errs, w.wrong(w.line, "%s %q is already in line %d", noun, w.name, other.line))
				}
			}
			all = append(all, w)
		}
		delete(lists, noun+"s")
	}
	for list := range lists {
		errs = append(errs, fmt.Errorf("%s: there is no list %q: the lists are users and applications", path, list))
	}
	return all, command.Usage(errors.Join(errs...))
}

// secretFields are the fields of the API for the secrets that the sender of a request chooses, by key.
var secretFields = map[string]string{"password-file": "password", "hook-secret-file": "hook_secret"}

// read reads the keys.
func (w *wanted) read() error {
	cmd, files := &cobra.Command{}, []string{"token-file", "hook-secret-file"}
	if w.noun == "user" {
		files = []string{"password-file"}
		new(userFields).addFlags(cmd)
	} else {
		addSettings(cmd)
	}
	cmd.Flags().String("name", "", "")
	w.fields, w.files = map[string]any{}, map[string]string{}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		value := w.keys[key]
		if value.Kind == yaml.AliasNode {
			value = *value.Alias
		}
		text, flag := value.Value, cmd.Flags().Lookup(key)
		if value.Tag == "!!null" {
			text = ""
		}
		switch {
		case value.Kind != yaml.ScalarNode:
			errs = append(errs, w.wrong(value.Line, "%s must be a text, a number, true or false", key))
		case slices.Contains(files, key) && text != "":
			if w.files[key] = text; !filepath.IsAbs(text) {
				w.files[key] = filepath.Join(filepath.Dir(w.path), text)
			}
		case flag == nil || key == "image":
			errs = append(errs, w.wrong(value.Line, "%s is empty, or no key of %ss", key, w.noun))
		case flag.Value.Set(text) != nil:
			errs = append(errs, w.wrong(value.Line, "%s: %q is not of the type %s", key, text, flag.Value.Type()))
		case key == "owner":
			w.owner = text
		default:
			field := fieldName(key)
			if w.fields[field] = valueOf(flag); w.noun == "user" && key != "name" {
				continue
			}
			if _, err := settingOf(field, w.fields[field]); err != nil {
				errs = append(errs, w.wrong(value.Line, "%s", err))
			}
		}
	}
	if w.name, _ = w.fields["name"].(string); w.name == "" {
		errs = append(errs, w.wrong(w.line, "the %s has no name", w.noun))
	}
	delete(w.fields, "name")
	return errors.Join(errs...)
}

// setting is an application with one setting, as the relay would store it. Equal settings are equal.
type setting struct {
	row  store.Application
	room string // which [account.ApplicationInput.Apply] leaves to the accounts
}

func settingOf(field string, value any) (s setting, err error) {
	body, err := json.Marshal(map[string]any{field: value})
	if err != nil {
		return s, err
	}
	var in account.ApplicationInput
	if err := request.Each("application/json", body, func(name string, v request.Value) error {
		_, err := in.Set(name, v)
		return err
	}); err != nil {
		return s, err
	}
	err = in.Apply(&s.row)
	s.row.HeartbeatSince = 0 // now
	if in.Room != nil {
		s.room = strings.TrimSpace(*in.Room)
	}
	return s, err
}
