package config

import (
	"fmt"
	"os"
	"reflect"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"slipway/shared/fileerror"
)

// Options describes what to load from.
type Options struct {
	// Prefix of the environment variables, without the underscore.
	Prefix string
	// File is the path of the YAML file; empty for none.
	File string
	// Source is the text of File when the caller has read it already.
	Source []byte
	// Environ is the environment as os.Environ returns it.
	Environ []string
	// Ignore names variables that bear the prefix and are not settings.
	Ignore []string
	// Aliases maps variables without the prefix to paths:
	// {"MATRIX_PASSWORD": "matrix.password"}. The prefixed name wins over them.
	Aliases map[string]string
	// Expand replaces ${VAR} and ${VAR:-text} in the values of the file. $$ is
	// a dollar sign; a variable that is unset and has no default is a problem.
	Expand bool
}

// Report holds what Load found besides its error.
type Report struct {
	// Warnings are sentences for the log: things that do not stop the start.
	Warnings []string
	// Origins maps the path of each value that is given to where: "config.yml:12", the name of a
	// variable, or the file of a secret.
	Origins map[string]string
}

type loader struct {
	Options
	problems Problems
	report   *Report
}

// Load fills target, a pointer to a struct that holds the defaults, from the
// file and the environment. If target has a method Validate(*Problems), Load calls it.
// The error joins all that is wrong, each a [Problem] with its key and the place where it was
// given; the target then holds what could be read, and must not be run with. The report is
// never nil.
func Load(target any, o Options) (*Report, error) {
	v := reflect.ValueOf(target).Elem()
	l := &loader{Options: o, report: &Report{Origins: map[string]string{}}}
	root, err := l.readFile()
	if err != nil {
		return l.report, err
	}
	schema := schemaOf(v.Type())
	l.mergeEnvironment(schema, root)
	values := l.section(schema, root, "", v)
	if err := decode(target, values); err != nil {
		l.problems.Addf("", "%v", err)
	}
	l.validate(target)
	return l.report, l.problems.Err()
}

// decode fills the target. viper separates the parts of keys by a character that none
// has, so that a dot in the name of a map's entry is only a dot.
func decode(target any, values map[string]any) error {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x1f"))
	if err := v.MergeConfigMap(values); err != nil {
		return err
	}
	return v.UnmarshalExact(target, func(c *mapstructure.DecoderConfig) { c.TagName, c.WeaklyTypedInput = "key", false })
}

func (l *loader) readFile() (*yaml.Node, error) {
	source := l.Source
	if source == nil {
		if l.File == "" {
			return &yaml.Node{Kind: yaml.MappingNode}, nil
		}
		var err error
		if source, err = os.ReadFile(l.File); err != nil {
			return nil, fmt.Errorf("the configuration file cannot be read: %w", fileerror.Explain(l.File, err))
		}
	}
	root, err := parse(source, func(line int) string { return fmt.Sprintf("%s:%d", l.File, line) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.File, err)
	}
	return root, nil
}

func (l *loader) warnf(format string, args ...any) {
	l.report.Warnings = append(l.report.Warnings, fmt.Sprintf(format, args...))
}
