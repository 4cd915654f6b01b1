package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with one setting.
type Problem struct {
	// Key is the path of the setting, such as http.tls.certificate.
	Key string
	// Origin is its place, such as "config.yml:12" or the name of a variable.
	Origin string
	// Text describes what is wrong, and what would be right.
	Text string
}

// Error is the key, what is wrong, and where.
func (p *Problem) Error() string {
	text := strings.TrimPrefix(p.Key+": "+p.Text, ": ")
	if p.Origin != "" {
		text += " (" + p.Origin + ")"
	}
	return text
}

// Problems collects all problems, so that an operator can fix them together.
type Problems struct{ list []*Problem }

// Addf adds a problem with the setting key.
func (p *Problems) Addf(key, format string, args ...any) { p.add(key, "", format, args...) }

func (p *Problems) add(key, origin, format string, args ...any) {
	p.list = append(p.list, &Problem{Key: key, Origin: origin, Text: fmt.Sprintf(format, args...)})
}

// Err joins what was collected; nil when nothing was.
func (p *Problems) Err() error {
	all := make([]error, len(p.list))
	for i, one := range p.list {
		all[i] = one
	}
	return errors.Join(all...)
}

// validate asks the target what is wrong with its values, leaving out what only follows from a
// mistake that was found before.
func (l *loader) validate(target any) {
	v, ok := target.(interface{ Validate(*Problems) })
	if !ok {
		return
	}
	var found Problems
	v.Validate(&found)
	known := slices.Clone(l.problems.list)
	for _, p := range found.list {
		if slices.ContainsFunc(known, func(k *Problem) bool { return within(p.Key, k.Key) || within(k.Key, p.Key) }) {
			continue
		}
		for at := p.Key; p.Origin == "" && at != ""; at = at[:max(0, strings.LastIndexAny(at, ".["))] {
			p.Origin = l.report.Origins[at]
		}
		l.problems.list = append(l.problems.list, p)
	}
}

// within reports whether setting is key, a part of the section or list key, or the file of the secret key.
func within(setting, key string) bool {
	rest, found := strings.CutPrefix(setting, key)
	return found && (rest == "" || rest == "_file" || key == "" || rest[0] == '.' || rest[0] == '[')
}
