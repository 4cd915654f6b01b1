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
		Driver     component       `json:"driver"`
		Extensions json.RawMessage `json:"extensions"`
	} `json:"tool"`
	Results json.RawMessage `json:"results"`
}

// component is a part of a tool that defines rules.
type component struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Rules   json.RawMessage `json:"rules"`
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

// finding is a result. It names its rule by ID, by index, or both.
type finding struct {
	RuleID    string `json:"ruleId"`
	RuleIndex *int   `json:"ruleIndex"`
	Rule      struct {
		ID        string `json:"id"`
		Index     *int   `json:"index"`
		Component struct {
			Index *int `json:"index"` // of an extension; nil = the driver
		} `json:"toolComponent"`
	} `json:"rule"`
	Kind         string          `json:"kind"`
	Level        string          `json:"level"`
	Baseline     string          `json:"baselineState"`
	Suppressions json.RawMessage `json:"suppressions"`
}

// levels are the severities of findings whose rule has no score.
var levels = map[string]string{"error": "high", "warning": "medium", "note": "low"}

// rules are the rules of a run: those of the driver, then those of its extensions.
type rules struct {
	list []rule
	ends []int          // in list, by component
	byID map[string]int // indexes in list
}

func (s *summary) addRules(all *rules, c *component) error {
	err := each(s, c.Rules, func(r *rule) error {
		all.byID[r.ID] = len(all.list)
		all.list = append(all.list, *r)
		return nil
	})
	all.ends = append(all.ends, len(all.list))
	return err
}

// of returns the rule of a finding, a zero rule if it is unknown. The ID decides, since some tools write wrong indexes.
func (all *rules) of(f *finding) rule {
	id := cmp.Or(f.RuleID, f.Rule.ID)
	if i, ok := all.byID[id]; ok && id != "" {
		return all.list[i]
	}
	part, start := 0, 0
	if i := f.Rule.Component.Index; i != nil {
		part = *i + 1
	}
	index := cmp.Or(f.RuleIndex, f.Rule.Index)
	if index == nil || part < 0 || part >= len(all.ends) {
		return rule{}
	}
	if part > 0 {
		start = all.ends[part-1]
	}
	if *index < 0 || *index >= all.ends[part]-start {
		return rule{}
	}
	return all.list[start+*index]
}

func (s *summary) readRun(r *run) error {
	driver := &r.Tool.Driver
	if driver.Name == "" || len(r.Results) == 0 || string(r.Results) == "null" {
		return errors.New("a run has no tool or no results")
	}
	s.Scanner, s.Version = driver.Name, driver.Version
	all := &rules{byID: map[string]int{}}
	err := s.addRules(all, driver)
	if err != nil {
		return err
	}
	err = each(s, r.Tool.Extensions, func(c *component) error { return s.addRules(all, c) })
	if err != nil {
		return err
	}
	return each(s, r.Results, func(f *finding) error {
		if f.Kind != "" && f.Kind != "fail" || f.Baseline == "absent" { // it passed, needs a person, or is fixed
			return nil
		}
		suppressed, err := s.suppressed(f)
		if suppressed || err != nil {
			return err
		}
		of := all.of(f)
		severity := strings.Trim(string(of.Properties.Score), `"`)
		if severity == "" {
			severity = levels[cmp.Or(f.Level, of.Configuration.Level, "warning")]
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
