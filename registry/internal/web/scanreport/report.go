// Package scanreport summarizes the reports of security scanners that clients attach to images.
package scanreport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// MaxReport bounds the bytes of a report that is read.
	MaxReport = 8 << 20

	maxEntries = 100_000 // of the lists of a report: findings, rules and what they are in
	maxDepth   = 3       // of documents in each other: a bundle, its statement, and the report in that
)

// Room is about how many bytes of memory reading a report of this size takes.
func Room(size int64) int64 { return 6*size + min(12*size, 16<<20) }

// Severities of findings; a smaller one is worse.
const (
	critical = iota
	high
	medium
	low
	unknown
)

var severities = [...]string{"critical", "high", "medium", "low", "unknown"}

// Report summarizes a report. Nothing in it is proven: the client that pushed it chose all of it.
type Report struct {
	Scanner string               // "" = the report has no run of one
	Counts  [len(severities)]int // findings by severity, as often as the report lists them
}

// Found lists how many findings there are of each severity, the worst first.
func (r *Report) Found() (list []string) {
	for i, n := range r.Counts {
		if n > 0 {
			list = append(list, fmt.Sprint(n, " ", severities[i]))
		}
	}
	return list
}

// Class returns the style of the report. None is "good": a report isn't proven.
func (r *Report) Class() string {
	switch {
	case r.Counts[critical]+r.Counts[high] > 0:
		return "bad"
	case r.Counts[medium] > 0:
		return "warn"
	}
	return "info"
}

// IsPredicate reports whether attestations with a type of predicate are scan reports: vuln of cosign, or vulns of in-toto, in any version.
func IsPredicate(predicateType string) bool {
	t := strings.TrimPrefix(predicateType, "https://")
	return t == "cosign.sigstore.dev/attestation/vuln/v1" || strings.HasPrefix(t, "in-toto.io/attestation/vulns/")
}

// document is the union of the formats. Its lists are decoded entry by entry, since many small entries would take much memory.
type document struct {
	Runs json.RawMessage // SARIF

	SchemaVersion int // Trivy, up to Results
	ArtifactName  string
	Results       json.RawMessage

	PredicateType string // in-toto
	Predicate     struct {
		Scanner struct {
			URI    string
			Result json.RawMessage // what the scanner wrote with cosign's, a list with in-toto's
		}
	}

	Payload      []byte                    // DSSE
	DSSEEnvelope *struct{ Payload []byte } // Sigstore
}

// Read summarizes a report in SARIF or Trivy's JSON, or in an attestation of type vuln (cosign) or vulns (in-toto), alone, in a DSSE
// envelope or in a Sigstore bundle. It verifies no signature.
func Read(content []byte) (*Report, error) {
	s := &summary{}
	err := s.read(content, 1)
	return &s.Report, err
}

// summary is a report that is being read.
type summary struct {
	Report
	entries int // that were decoded
}

func (s *summary) read(content []byte, depth int) error {
	var d document
	err := json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &d)
	scanner := &d.Predicate.Scanner
	switch {
	case err != nil:
		return err
	case depth > maxDepth:
	case d.DSSEEnvelope != nil:
		return s.read(d.DSSEEnvelope.Payload, depth+1)
	case d.Payload != nil:
		return s.read(d.Payload, depth+1)
	case IsPredicate(d.PredicateType) && bytes.HasPrefix(scanner.Result, []byte("[")):
		s.Scanner = cmp.Or(scanner.URI, "unknown")
		return each(s, scanner.Result, s.addVulnerability)
	case IsPredicate(d.PredicateType):
		return s.read(scanner.Result, depth+1)
	case d.PredicateType == "" && d.Runs != nil:
		return each(s, d.Runs, s.readRun)
	case d.PredicateType == "" && d.SchemaVersion > 0 && d.ArtifactName != "":
		s.Scanner = "Trivy"
		return each(s, d.Results, s.readTarget)
	}
	return errors.New("the report has an unknown format")
}

// vulnerability is an entry of in-toto's list.
type vulnerability struct {
	Severity json.RawMessage // assessments, of which the worst counts
}

func (s *summary) addVulnerability(v *vulnerability) error {
	worst := unknown
	err := each(s, v.Severity, func(a *struct{ Score string }) error {
		worst = min(worst, assessed(a.Score))
		return nil
	})
	s.Counts[worst]++
	return err
}

// readTarget counts what Trivy found in a part of an image, without the checks of configurations that passed.
func (s *summary) readTarget(t *struct{ Vulnerabilities, Secrets, Misconfigurations json.RawMessage }) error {
	for _, list := range []json.RawMessage{t.Vulnerabilities, t.Secrets, t.Misconfigurations} {
		err := each(s, list, func(f *struct{ Severity, Status string }) error {
			if f.Status != "PASS" && f.Status != "EXCEPTION" {
				s.Counts[assessed(f.Severity)]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run is a run of SARIF 2.1.0.
type run struct {
	Tool struct {
		Driver struct {
			Name  string
			Rules json.RawMessage
		}
	}
	Results json.RawMessage
}

// rule describes findings.
type rule struct {
	ID         string
	Properties struct {
		Score json.RawMessage `json:"security-severity"` // a text, which some tools write as a number
	}
	DefaultConfiguration struct{ Level string }
}

// finding is a result.
type finding struct {
	RuleID, Kind, Level string
	Suppressions        []struct{}
}

// levels are the severities of findings whose rule has no score.
var levels = map[string]string{"error": "high", "warning": "medium", "note": "low"}

func (s *summary) readRun(r *run) error {
	if s.Scanner = r.Tool.Driver.Name; s.Scanner == "" || len(r.Results) == 0 || string(r.Results) == "null" {
		return errors.New("a run has no tool or no results")
	}
	rules := map[string]rule{}
	if err := each(s, r.Tool.Driver.Rules, func(r *rule) error { rules[r.ID] = *r; return nil }); err != nil {
		return err
	}
	return each(s, r.Results, func(f *finding) error {
		if len(f.Suppressions) > 0 || f.Kind != "" && f.Kind != "fail" { // it passed, or needs a person
			return nil
		}
		of := rules[f.RuleID]
		severity := strings.Trim(string(of.Properties.Score), `"`)
		if severity == "" {
			severity = levels[cmp.Or(f.Level, of.DefaultConfiguration.Level, "warning")]
		}
		s.Counts[assessed(severity)]++
		return nil
	})
}

// each decodes the entries of a list one after the other. An absent list has none.
func each[T any](s *summary, list json.RawMessage, f func(*T) error) error {
	if len(list) == 0 || string(list) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(list))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the report has something else in place of a list")
	}
	for d.More() {
		if s.entries++; s.entries > maxEntries {
			return errors.New("the report has too many entries")
		}
		var entry T
		if err := d.Decode(&entry); err != nil {
			return err
		}
		if err := f(&entry); err != nil {
			return err
		}
	}
	return nil
}

// assessed is the severity with a name, or for a CVSS score as GitHub reads it.
func assessed(text string) int {
	for i, name := range severities {
		if strings.EqualFold(name, text) {
			return i
		}
	}
	switch score, err := strconv.ParseFloat(text, 64); {
	case err != nil || !(score > 0 && score <= 10):
		return unknown
	case score >= 9:
		return critical
	case score >= 7:
		return high
	case score >= 4:
		return medium
	}
	return low
}
