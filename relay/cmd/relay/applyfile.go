package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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

// applyFile is the parsed argument of `relay apply`.
type applyFile struct {
	path         string
	users        []*wanted
	applications []*wanted
	lists        map[string]bool // the lists that the file has
}

// wanted is a user or an application of an apply file.
type wanted struct {
	noun, name string
	line       int
	fields     map[string]any    // as the API takes them, without the name
	owner      string            // of an application; "" keeps it
	files      map[string]string // of secrets, by key
}

// readApplyFile reads and checks a file. Errors name its lines, all of them.
func readApplyFile(path string) (*applyFile, error) {
	content, err := filewatch.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(content, &root); err != nil {
		return nil, command.Usage(fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	f := &applyFile{path: path, lists: map[string]bool{}}
	if root.Kind == 0 {
		return nil, command.Usage(f.wrong(1, "the file is empty: it needs users or applications"))
	}
	err = f.pairs(root.Content[0], "the file", func(key string, value *yaml.Node) error {
		list := map[string]*[]*wanted{"users": &f.users, "applications": &f.applications}[key]
		switch {
		case list == nil:
			return f.wrong(value.Line, "there is no list %q: the lists are users and applications", key)
		case value.Kind != yaml.SequenceNode && value.Tag != "!!null":
			return f.wrong(value.Line, "%s must be a list", key)
		}
		f.lists[key] = true
		var errs []error
		for _, one := range value.Content {
			w, err := f.wanted(strings.TrimSuffix(key, "s"), one)
			for _, other := range *list {
				if err == nil && other.name == w.name && strings.EqualFold(other.owner, w.owner) {
					err = f.wrong(one.Line, "%s %q is already in line %d", w.noun, w.name, other.line)
				}
			}
			*list = append(*list, w)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return nil, command.Usage(err)
	}
	return f, nil
}

func (f *applyFile) wrong(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...))
}

// pairs calls do for each pair of a mapping, and returns all errors.
func (f *applyFile) pairs(n *yaml.Node, what string, do func(key string, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return f.wrong(n.Line, "%s must have keys and values", what)
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if seen[key.Value] {
			errs = append(errs, f.wrong(key.Line, "%s is there twice", key.Value))
			continue
		}
		seen[key.Value] = true
		errs = append(errs, do(key.Value, value))
	}
	return errors.Join(errs...)
}

// secretKeys are the keys of files with secrets, by noun.
var secretKeys = map[string][]string{"user": {"password-file"}, "application": {"token-file", "hook-secret-file"}}

// secretFields are the fields of the API for the secrets that the sender of a request chooses, by key.
var secretFields = map[string]string{"password-file": "password", "hook-secret-file": "hook_secret"}

// wanted reads one user or application. The keys of an application are the flags of `relay app set`.
func (f *applyFile) wanted(noun string, n *yaml.Node) (*wanted, error) {
	w := &wanted{noun: noun, line: n.Line, fields: map[string]any{}, files: map[string]string{}}
	flags := addSettings(&cobra.Command{}).flags
	err := f.pairs(n, "each entry", func(key string, value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode {
			return f.wrong(value.Line, "%s must be a text, a number, true or false", key)
		}
		text := value.Value
		if value.Tag == "!!null" {
			text = ""
		}
		flag := flags.Lookup(key)
		switch {
		case key == "name":
			w.name = text
			return f.check(w.line, "name", text)
		case key == "owner" && noun == "application":
			w.owner = text
			return nil
		case slices.Contains(secretKeys[noun], key) && text != "":
			if w.files[key] = text; !filepath.IsAbs(text) {
				w.files[key] = filepath.Join(filepath.Dir(f.path), text)
			}
			return nil
		case noun == "user" && key == "admin" && text != "true" && text != "false":
			return f.wrong(value.Line, "admin must be true or false")
		case noun == "user" && key == "admin":
			w.fields[fieldName(key)] = text == "true"
			return nil
		case noun == "user" && key == "matrix-id":
			w.fields[fieldName(key)] = text
			return nil
		case noun == "application" && flag != nil:
			if err := flag.Value.Set(text); err != nil {
				return f.wrong(value.Line, "%s: %q is not of the type %s", key, text, flag.Value.Type())
			}
			field := fieldName(key)
			w.fields[field] = valueOf(flag)
			return f.check(value.Line, field, w.fields[field])
		}
		return f.wrong(value.Line, "%s of %s %q is unknown or empty", key, noun, w.name)
	})
	if w.name == "" {
		err = errors.Join(err, f.wrong(n.Line, "the %s has no name", noun))
	}
	return w, err
}

func (f *applyFile) check(line int, field string, value any) error {
	if _, err := settingOf(field, value); err != nil {
		return f.wrong(line, "%s", err)
	}
	return nil
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
