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

// Report is what Load has to say besides its error.
type Report struct {
	// Warnings are sentences for the log: things that do not stop the start.
	Warnings []string

	origins map[string]string
}

// Origin returns where the value at path came from: "config.yml:12", the name of a variable,
// the file of a secret, or "" for the default.
func (r *Report) Origin(path string) string { return r.origins[path] }
