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
	"time"
)

const (
	// MaxReport bounds the bytes of a report that is read.
	MaxReport = 8 << 20

	maxEntries = 100_000 // of the lists of a report: findings, rules and what they are in
)

// Room is about how many bytes of memory reading a report of this size takes.
func Room(size int64) int64 { return 6*size + min(12*size, 16<<20) }

// Severity is the severity of a finding; a smaller one is worse.
type Severity int

// The severities.
const (
	Critical Severity = iota
	High
	Medium
	Low
	Unknown
)

var severities = [...]string{"critical", "high", "medium", "low", "unknown"}

// Report summarizes a report. Nothing in it is proven: the client that pushed it chose all of it.
type Report struct {
	Scanner, Version string               // "" = the report doesn't name it
	Time             time.Time            // end of the scan; zero = the report doesn't date it
	Counts           [len(severities)]int // findings by severity, as often as the report lists them
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

// document is the union of the formats. Its lists are decoded entry by entry, since many small entries would take much memory.
type document struct {
	Runs json.RawMessage // SARIF

	SchemaVersion int // Trivy, up to Results
	ArtifactName  string
	CreatedAt     date
	Trivy         struct{ Version string }
	Results       json.RawMessage

	PredicateType string // in-toto
	Predicate     json.RawMessage

	Payload      []byte                    // DSSE
	DSSEEnvelope *struct{ Payload []byte } // Sigstore
}

// Read summarizes a report in SARIF or Trivy's JSON, or in an attestation of type vuln (cosign) or vulns (in-toto), alone, in a DSSE
// envelope or in a Sigstore bundle. It verifies no signature.
func Read(content []byte) (Report, error) {
	d, err := parse(content)
	if err == nil && d.DSSEEnvelope != nil {
		d.Payload = d.DSSEEnvelope.Payload
	}
	if err == nil && d.Payload != nil {
		d, err = parse(d.Payload)
	}
	s := &summary{}
	switch {
	case err != nil:
	case d.PredicateType != "":
		err = s.readPredicate(d)
	default:
		err = s.readResult(d)
	}
	return s.Report, err
}

func parse(content []byte) (*document, error) {
	var d document
	return &d, json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &d)
}

// summary is a report that is being read.
type summary struct {
	Report
	entries int // that were decoded
}

// readResult reads what a scanner writes: SARIF or Trivy's JSON.
func (s *summary) readResult(d *document) error {
	if d.Runs != nil {
		s.Scanner = ""
		err := each(s, d.Runs, s.readRun)
		if err == nil && s.Scanner == "" {
			err = errors.New("the report has no run")
		}
		return err
	}
	if d.SchemaVersion == 0 || d.ArtifactName == "" {
		return errors.New("the report has an unknown format")
	}
	s.Scanner, s.Version = "Trivy", d.Trivy.Version
	s.Time = cmp.Or(d.CreatedAt.Time, s.Time)
	return each(s, d.Results, s.readTarget)
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

// date is a time in a report. UnmarshalJSON never fails: a report with a bad date is worth showing.
type date struct{ time.Time }

func (d *date) UnmarshalJSON(text []byte) error {
	d.Time, _ = time.Parse(`"`+time.RFC3339+`"`, string(text))
	return nil
}

// assessed is the severity with a name, or for a CVSS score as GitHub reads it.
func assessed(text string) Severity {
	for i, name := range severities {
		if strings.EqualFold(name, text) {
			return Severity(i)
		}
	}
	switch score, err := strconv.ParseFloat(text, 64); {
	case err != nil || !(score > 0 && score <= 10):
		return Unknown
	case score >= 9:
		return Critical
	case score >= 7:
		return High
	case score >= 4:
		return Medium
	}
	return Low
}
