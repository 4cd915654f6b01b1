package config

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
	// Aliases maps further variables, without the prefix, to paths:
	// {"MATRIX_PASSWORD": "matrix.password"}. The prefixed name wins over them.
	Aliases map[string]string
	// Expand replaces ${VAR} and ${VAR:-text} in the values of the file. $$ is
	// a dollar sign; a variable that is unset and has no default is a problem.
	Expand bool
}

// Report lists the sources of a configuration.
type Report struct {
	// Warnings are sentences for the log: things that do not stop the start.
	Warnings []string

	origins map[string]Origin
}

// Origin returns where the value at path came from.
func (r *Report) Origin(path string) Origin { return r.origins[path] }

// Leaf is one setting a configuration can have.
type Leaf struct {
	// Path is the key in the file: health.http[].uri, http.headers.<name>.
	Path string
	// Type is a word for the kind of value: string, duration, list of string.
	Type string
	// Default is the value without file and environment; empty for none.
	Default string
	// Env is the name of the variable.
	Env string
	// Doc is the text of the doc tag.
	Doc string
	// Aliases are other names of the key in the file.
	Aliases []string
	// Choices are the values allowed, when they are a closed set.
	Choices []string
	// Status is empty for a setting that works, else one of the Status names.
	Status string
}
