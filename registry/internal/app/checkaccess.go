package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/registry/internal/access"
	"slipway/registry/internal/auth"
	"slipway/registry/internal/config"
	"slipway/registry/internal/layout"
	"slipway/shared/filewatch"
)

// maxShown bounds the names or lines in a sentence.
const maxShown = 5

// Warnings describes settings and lines of files that have no effect or give others access.
func Warnings(cfg *config.Config) []string {
	return slices.Concat(ruleWarnings(cfg), passwordWarnings(cfg), secretWarnings(cfg))
}

// checkPasswords returns an error if no line of the password file gives anyone access and nothing else does: access rules may admit
// anonymous callers or certificates. An empty file has not been filled yet.
func checkPasswords(cfg *config.Config) error {
	a := cfg.Auth
	content := passwordFile(a)
	broken := auth.BrokenLines(a.HTPasswd.Path, content)
	if len(broken) == 0 || len(auth.UserNames(content)) > 0 || a.Service != nil || a.HTPasswd.AnonymousPull || cfg.Access != nil {
		return nil
	}
	return errors.New("no one can log in: " + strings.Join(some(broken), "; "))
}

// passwordWarnings names the lines that give no one access if other lines do. A server logs each of them when it reads the
// file.
func passwordWarnings(cfg *config.Config) []string {
	if cfg.Auth == nil || cfg.Auth.HTPasswd == nil || checkPasswords(cfg) != nil {
		return nil
	}
	var warnings []string
	for _, line := range some(auth.BrokenLines(cfg.Auth.HTPasswd.Path, passwordFile(cfg.Auth))) {
		warnings = append(warnings, "auth.htpasswd.path: "+line)
	}
	return warnings
}

// passwordFile returns the content of the file, or nil if it cannot be read.
func passwordFile(a *config.Auth) []byte {
	content, _ := filewatch.ReadFile(a.HTPasswd.Path) // the code that opens it reports errors
	return content
}

// ruleWarnings names callers of the access rules who do not exist, and rules without effect.
func ruleWarnings(cfg *config.Config) []string {
	if cfg.Access == nil {
		return nil
	}
	rules, err := AccessRules(cfg.Access)
	if err != nil {
		return nil // checkFiles says so
	}
	if cfg.Auth == nil || cfg.Auth.None != nil {
		return noLoginWarning(rules)
	}
	var machines, users, robots, pipelines, certificates []string
	service := cfg.Auth.Service != nil
	known, certain := passwordUsers(cfg)
	exists, readable := robotNames(cfg)
	for _, c := range rules.Named() {
		switch {
		case (c.Kind == access.Robot || c.Kind == access.Workload) && !service:
			machines = append(machines, c.String())
		case c.Kind == access.User && certain && !slices.Contains(known, c.Name):
			users = append(users, c.Name)
		case c.Kind == access.Robot && readable && !exists(c.Name):
			robots = append(robots, c.String())
		case c.Kind == access.Workload && !slices.ContainsFunc(workloadsOf(cfg), func(w config.Workload) bool { return w.Name == c.Name }):
			pipelines = append(pipelines, c.String())
		case c.Kind == access.Certificate && (cfg.HTTP.TLS == nil || len(cfg.HTTP.TLS.ClientCAs) == 0):
			certificates = append(certificates, c.String())
		}
	}
	var warnings []string
	if groups := rules.Groups(); len(groups) > 0 && (cfg.Auth.OIDC == nil || cfg.Auth.OIDC.GroupsClaim == "") {
		for i := range groups {
			groups[i] = access.GroupWord + groups[i]
		}
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, but only auth.oidc with a groupsclaim gives people groups", strings.Join(some(groups), ", ")))
	}
	for _, text := range some(rules.Unreachable()) {
		warnings = append(warnings, "access: "+text)
	}
	if len(robots) > 0 {
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, which the storage does not have: correct the name, or make it with registry robot create", strings.Join(some(robots), ", ")))
	}
	if len(pipelines) > 0 {
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, which is not in auth.service.builtin.workloads", strings.Join(some(pipelines), ", ")))
	}
	if len(certificates) > 0 {
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, but client certificates count only if http.tls.clientcas is set", strings.Join(some(certificates), ", ")))
	}
	if len(machines) > 0 {
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, but robots and workloads can log in only if auth.service is set: write service: builtin below auth", strings.Join(some(machines), ", ")))
	}
	if len(users) > 0 {
		warnings = append(warnings, fmt.Sprintf("access: rules name %s, but %s has no such user", strings.Join(some(users), ", "), cfg.Auth.HTPasswd.Path))
	}
	return warnings
}

// robotNames returns the names of the robots. readable is false if only a server can
// read them.
func robotNames(cfg *config.Config) (exists func(name string) bool, readable bool) {
	s := cfg.Storage.Filesystem
	if s == nil {
		return nil, false
	}
	dir := s.RootDirectory + layout.Robots
	if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	return func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}, true
}

// noLoginWarning names the callers of the rules if no one can log in. Certificates need no auth.
func noLoginWarning(rules *access.Rules) []string {
	var named []string
	if rules.NamesUsers() {
		named = append(named, "users")
	}
	for _, c := range rules.Named() {
		if c.Kind != access.Certificate {
			named = append(named, c.String())
		}
	}
	if len(named) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("access: the rules name %s, and no auth lets anybody log in", strings.Join(some(named), ", "))}
}

// passwordUsers returns the users of the password file. certain reports whether there are no others.
func passwordUsers(cfg *config.Config) (names []string, certain bool) {
	if cfg.Auth.HTPasswd == nil || canRead(cfg.Auth.HTPasswd.Path) != nil {
		return nil, false
	}
	return auth.UserNames(passwordFile(cfg.Auth)), true
}

// AccessRules compiles the rules of the section, or of the file that it names.
func AccessRules(a *config.Access) (*access.Rules, error) {
	if a.File == "" {
		return a.Compile()
	}
	content, err := os.ReadFile(a.File)
	if err != nil {
		return nil, err
	}
	return config.LoadAccess(a.File, content)
}

// some shortens a list to maxShown entries.
func some(list []string) []string {
	if more := len(list) - maxShown; more > 0 {
		return append(slices.Clone(list[:maxShown]), fmt.Sprintf("%d more", more))
	}
	return list
}
