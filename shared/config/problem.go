package config

import (
	"errors"
	"fmt"
)

// Problem is one thing wrong with one setting.
type Problem struct {
	// Key is the path of the setting, such as http.tls.certificate.
	Key string
	// Origin is where it was given; the zero value when it was not.
	Origin Origin
	// Text describes what is wrong, and what would be right.
	Text string

	// whole is set when Text names the key already.
	whole bool
}

// Error is the key, what is wrong, and where.
func (p *Problem) Error() string {
	text := p.Text
	if p.Key != "" && !p.whole {
		text = p.Key + ": " + text
	}
	if p.Origin == (Origin{}) {
		return text
	}
	return text + " (" + p.Origin.String() + ")"
}

// Problems collects what is wrong, so that an operator hears all of it at once.
type Problems struct{ list []*Problem }

// Addf adds a problem with the setting key.
func (p *Problems) Addf(key, format string, args ...any) {
	p.add(key, Origin{}, format, args...)
}

func (p *Problems) add(key string, o Origin, format string, args ...any) {
	p.list = append(p.list, &Problem{Key: key, Origin: o, Text: fmt.Sprintf(format, args...)})
}

// Err joins what was collected; nil when nothing was.
func (p *Problems) Err() error {
	all := make([]error, len(p.list))
	for i, one := range p.list {
		all[i] = one
	}
	return errors.Join(all...)
}
