package scanreport

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
)

// run is a run of SARIF 2.1.0.
type run struct {
	Tool struct {
		Driver     component
		Extensions json.RawMessage
	}
	Results json.RawMessage
}

// component is a part of a tool that defines rules.
type component struct {
	Name, Version string
	Rules         json.RawMessage
}

type rule struct {
	ID         string
	Properties struct {
		Score json.RawMessage `json:"security-severity"` // a text, which some tools write as a number
	}
	DefaultConfiguration struct{ Level string }
}

// finding is a result.
type finding struct {
	RuleID       string
	Rule         struct{ ID string }
	Kind, Level  string
	Suppressions json.RawMessage
}

// levels are the severities of findings whose rule has no score.
var levels = map[string]string{"error": "high", "warning": "medium", "note": "low"}

func (s *summary) readRun(r *run) error {
	driver := &r.Tool.Driver
	if driver.Name == "" || len(r.Results) == 0 || string(r.Results) == "null" {
		return errors.New("a run has no tool or no results")
	}
	s.Scanner, s.Version = driver.Name, driver.Version
	rules := map[string]rule{}
	add := func(c *component) error {
		return each(s, c.Rules, func(r *rule) error { rules[r.ID] = *r; return nil })
	}
	if err := add(driver); err != nil {
		return err
	}
	if err := each(s, r.Tool.Extensions, add); err != nil {
		return err
	}
	return each(s, r.Results, func(f *finding) error {
		suppressed, err := s.suppressed(f)
		if suppressed || err != nil || f.Kind != "" && f.Kind != "fail" { // it passed, or needs a person
			return err
		}
		of := rules[cmp.Or(f.RuleID, f.Rule.ID)]
		severity := strings.Trim(string(of.Properties.Score), `"`)
		if severity == "" {
			severity = levels[cmp.Or(f.Level, of.DefaultConfiguration.Level, "warning")]
		}
		s.Counts[assessed(severity)]++
		return nil
	})
}

// suppressed reports whether a finding has suppressions, none of which is rejected or under review.
func (s *summary) suppressed(f *finding) (bool, error) {
	some, all := false, true
	err := each(s, f.Suppressions, func(of *struct{ Status string }) error {
		some, all = true, all && (of.Status == "" || of.Status == "accepted")
		return nil
	})
	return some && all, err
}
