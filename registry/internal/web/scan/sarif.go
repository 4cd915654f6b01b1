package scan

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
)

// run is a run of SARIF 2.1.0.
type run struct {
	Tool struct {
		Driver struct {
			Name    string          `json:"name"`
			Version string          `json:"version"`
			Rules   json.RawMessage `json:"rules"`
		} `json:"driver"`
	} `json:"tool"`
	Results json.RawMessage `json:"results"`
}

type rule struct {
	ID         string `json:"id"`
	Properties struct {
		Score json.RawMessage `json:"security-severity"` // a text, which some tools write as a number
	} `json:"properties"`
	Configuration struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
}

type finding struct {
	RuleID  string          `json:"ruleId"`
	Kind    string          `json:"kind"`
	Level   string          `json:"level"`
	Message json.RawMessage `json:"message"`
}

// levels are the severities of findings whose rule has no score.
var levels = map[string]string{"error": "high", "warning": "medium", "note": "low"}

// readRun tells findings apart by their message, too: it names the package, for which SARIF has no field.
func (s *summary) readRun(r *run) error {
	if r.Tool.Driver.Name == "" || len(r.Results) == 0 || string(r.Results) == "null" {
		return errors.New("a run has no tool or no results")
	}
	s.Scanner, s.Version = r.Tool.Driver.Name, r.Tool.Driver.Version
	rules := map[string]rule{}
	err := each(s, r.Tool.Driver.Rules, func(r *rule) error {
		rules[r.ID] = *r
		return nil
	})
	if err != nil {
		return err
	}
	return each(s, r.Results, func(f *finding) error {
		if f.Kind != "" && f.Kind != "fail" { // it passed, or needs a person
			return nil
		}
		of := rules[f.RuleID]
		severity := strings.Trim(string(of.Properties.Score), `"`)
		if severity == "" {
			severity = levels[cmp.Or(f.Level, of.Configuration.Level, "warning")]
		}
		s.add(f.RuleID, string(f.Message), assessed(severity))
		return nil
	})
}
