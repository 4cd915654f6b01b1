package config

import "fmt"

// Origin says where a value came from. The zero value means the default.
type Origin struct {
	File     string
	Line     int
	Variable string
}

// String is "config.yml:12", a file of a secret, a variable's name, or "default".
func (o Origin) String() string {
	switch {
	case o.Variable != "" && o.File != "":
		return fmt.Sprintf("%s:%d ${%s}", o.File, o.Line, o.Variable)
	case o.Variable != "":
		return o.Variable
	case o.File != "" && o.Line == 0:
		return o.File
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return "default"
}
