package config

import (
	"errors"
	"fmt"
	"strings"
)

// expander replaces ${VAR} and ${VAR:-text}, and $$ by a dollar sign, in text
// that is one value already: what a variable holds can never become structure.
func expander(env map[string]string) func(string) (string, string, error) {
	return func(text string) (string, string, error) {
		var out strings.Builder
		var used string
		for {
			before, after, found := strings.Cut(text, "$")
			out.WriteString(before)
			if !found {
				return out.String(), used, nil
			}
			switch {
			case strings.HasPrefix(after, "$"):
				out.WriteByte('$')
				text = after[1:]
			case strings.HasPrefix(after, "{"):
				name, value, rest, err := reference(after[1:], env)
				if err != nil {
					return "", "", err
				}
				out.WriteString(value)
				used, text = name, rest
			default:
				out.WriteByte('$')
				text = after
			}
		}
	}
}

// reference reads what follows "${" and returns the variable, its value and
// the text behind the closing brace.
func reference(text string, env map[string]string) (name, value, rest string, err error) {
	body, rest, closed := strings.Cut(text, "}")
	if !closed {
		return "", "", "", errors.New("${ without }; write $$ for a dollar sign")
	}
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !isVariable(name) {
		return "", "", "", fmt.Errorf("${%s} does not name a variable; write $$ for a dollar sign", name)
	}
	switch value := env[name]; {
	case value != "":
		return name, value, rest, nil
	case hasFallback:
		return name, fallback, rest, nil
	}
	return "", "", "", fmt.Errorf("the variable %s is not set; ${%s:-text} gives it a default", name, name)
}

func isVariable(name string) bool {
	for i, r := range name {
		switch {
		case r == '_', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
		case i > 0 && r >= '0' && r <= '9':
		default:
			return false
		}
	}
	return name != ""
}
