package config

import (
	"fmt"
	"regexp"
)

// reference is $$, ${VAR}, ${VAR:-text}, or a ${ that is none of them.
var reference = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{`)

// expander replaces references to variables, and $$ by a dollar sign, in text that is one value
// already: what a variable holds can't become structure. It returns the last variable too.
func expander(env map[string]string) func(string) (expanded, variable string, err error) {
	return func(text string) (expanded, variable string, err error) {
		expanded = reference.ReplaceAllStringFunc(text, func(match string) string {
			m := reference.FindStringSubmatch(match)
			switch name := m[1]; {
			case match == "$$":
				return "$"
			case name == "":
				err = fmt.Errorf("${ does not name a variable such as ${NAME}; write $$ for a dollar sign")
			case env[name] != "":
				variable = name
				return env[name]
			case m[2] != "":
				variable = name
				return m[3]
			default:
				err = fmt.Errorf("the variable %s is not set; ${%s:-text} gives it a default", name, name)
			}
			return match
		})
		return expanded, variable, err
	}
}
